// cuda/loops/nvrtc.h: NVIDIA's compiler of CUDA C++ as a library, opened at its first use.
#pragma once

#include <string>

namespace moonlet::cuda::loops {

class Nvrtc {
 public:
  // The library in that file; it stays open. One that is missing, or of another release than
  // `version` (1000 * major + 10 * minor; 0: any), cannot be used: other releases may compute other
  // last bits than the kernels that were compiled with Moonlet.
  Nvrtc(const char* file, int version);
  bool usable() const { return usable_; }
  int version() const { return version_; }
  // The code of a source for a compute capability such as 90; all that makes another code of a
  // source is in options(), but for `more` of them, a line each. Throws with the compiler's
  // messages.
  std::string compile(const std::string& source, int capability,
                      const std::string& more = {}) const;
  std::string options(int capability) const;

 private:
  struct Functions;
  const Functions* functions_ = nullptr;
  bool usable_ = false;
  int version_ = 0;
};

// That of this build's toolkit.
const Nvrtc& nvrtc();

}  // namespace moonlet::cuda::loops
