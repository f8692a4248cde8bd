// cuda/emulated/library.cpp: code that is loaded while the program runs: shared libraries that the
// emulated NVRTC has made.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime.h"

struct CUlib_st {
  void* handle = nullptr;
};
// Stays for the process, as a name of it may.
struct CUkern_st {
  void (*run)(const void* arguments, std::uint64_t thread, std::uint64_t threads) = nullptr;
  std::size_t bytes = 0;  // of the arguments
  std::string name;
};

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  if (!library || !code) return cudaErrorInvalidValue;
  std::uint64_t size = 0;
  std::memcpy(&size, code, sizeof size);
  // A name that no library has had: the loader knows them by it.
  std::string path = (std::filesystem::temp_directory_path() / "moonlet-kernels-XXXXXX").string();
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return cudaErrorInvalidValue;
  const auto* bytes = static_cast<const char*>(code) + sizeof size;
  std::uint64_t done = 0;
  while (done < size) {
    const ssize_t written = ::write(file, bytes + done, size - done);
    if (written <= 0) break;
    done += static_cast<std::uint64_t>(written);
  }
  ::close(file);
  void* const handle = done == size ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  ::unlink(path.c_str());
  if (!handle) return cudaErrorInvalidValue;
  *library = new CUlib_st{handle};
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  if (!library) return cudaErrorInvalidResourceHandle;
  dlclose(library->handle);
  delete library;
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  if (!kernel || !library || !name) return cudaErrorInvalidValue;
  void* const run = dlsym(library->handle, name);
  const void* const bytes = dlsym(library->handle, (std::string(name) + "_bytes").c_str());
  if (!run || !bytes) return cudaErrorInvalidSymbol;
  auto* made = new CUkern_st;
  made->run = reinterpret_cast<decltype(made->run)>(run);
  made->bytes = static_cast<std::size_t>(*static_cast<const std::uint64_t*>(bytes));
  made->name = name;
  *kernel = made;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  if (!function || !arguments) return cudaErrorInvalidValue;
  const auto* kernel = static_cast<const CUkern_st*>(function);
  const auto* first = static_cast<const char*>(arguments[0]);
  const auto copy = std::make_shared<const std::vector<char>>(first, first + kernel->bytes);
  moonlet::emulated::launch(
      moonlet::emulated::Kernel{reinterpret_cast<const void*>(kernel->run), kernel->name.c_str()},
      grid, block, shared_bytes, stream, [copy, kernel] {
        kernel->run(copy->data(), std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                    std::uint64_t{gridDim.x} * blockDim.x);
      });
  return cudaPeekAtLastError();
}
