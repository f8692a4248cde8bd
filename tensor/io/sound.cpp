// tensor/io/sound.cpp: FLAC, Ogg and other sound by libsndfile, which is loaded when a file is
// read.
#include "tensor/io/sound.h"

#include "moonlet_config.h"
#include "tensor/core/error.h"

#if MOONLET_SNDFILE

#include <algorithm>
#include <memory>
#include <vector>

#include <sndfile.h>

#include "tensor/io/files.h"
#include "tensor/io/late_library.h"
#include "tensor/io/read_budget.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

struct SndFile {
  decltype(&::sf_open_fd) open = nullptr;
  decltype(&::sf_close) close = nullptr;
  decltype(&::sf_strerror) reason = nullptr;
  decltype(&::sf_readf_float) read = nullptr;
  decltype(&::sf_error) error = nullptr;
  std::string missing;

  SndFile() {
    LateLibrary library("libsndfile", "libsndfile.so.1");
    library.find("sf_open_fd", open);
    library.find("sf_close", close);
    library.find("sf_strerror", reason);
    library.find("sf_readf_float", read);
    library.find("sf_error", error);
    missing = library.missing;
  }
};

const SndFile& sndfile() {
  static const SndFile functions;
  return functions;
}

struct Closer {
  void operator()(SNDFILE* file) const { sndfile().close(file); }
};
using OpenSound = std::unique_ptr<SNDFILE, Closer>;

// Samples are read in parts, as a head may say any number of them; those before the first that is
// wanted are decoded, too, since not every format finds a sample by its number.
std::vector<float> read_samples(SNDFILE* file, int64_t channels, SoundPart part,
                                ReadBudget& budget) {
  constexpr int64_t kAtOnce = 65536;
  const int64_t frames_at_once = std::max<int64_t>(kAtOnce / channels, 1);
  std::vector<float> out, buffer(static_cast<size_t>(frames_at_once * channels));
  int64_t skipped = 0, found = 0;
  while (part.count < 0 || found < part.count) {
    stop_if_requested();
    int64_t wanted = frames_at_once;
    if (skipped < part.offset)
      wanted = std::min(wanted, part.offset - skipped);
    else if (part.count >= 0)
      wanted = std::min(wanted, part.count - found);
    const int64_t got = sndfile().read(file, buffer.data(), wanted);
    if (got <= 0) break;
    if (skipped < part.offset) {
      skipped += got;
      continue;
    }
    // A vector grows by as much as it has, and the tensor is one more.
    const auto count = static_cast<size_t>(got * channels);
    budget.take(3 * sizeof(float) * count);
    out.insert(out.end(), buffer.begin(), buffer.begin() + got * channels);
    found += got;
  }
  if (sndfile().error(file) != 0) fail("it is damaged: ", sndfile().reason(file));
  return out;
}

}  // namespace

std::string sound_unavailable() { return sndfile().missing; }

Sound read_sound(const std::string& path, SoundPart part, const char* op, int64_t max_bytes) {
  InputFile input(path, op);
  try {
    if (!sndfile().missing.empty())
      fail("this sound needs libsndfile, and ", sndfile().missing, "; WAV files work without it");
    ReadBudget budget(input.size(), max_bytes);
    SF_INFO info{};
    // Closes the descriptor, also where it fails.
    const OpenSound file(sndfile().open(input.release(), SFM_READ, &info, 1));
    if (file == nullptr) fail("it cannot be read: ", sndfile().reason(nullptr));
    if (info.channels < 1 || info.samplerate < 1) fail("its format is damaged");
    const std::vector<float> samples = read_samples(file.get(), info.channels, part, budget);
    const auto count = static_cast<int64_t>(samples.size()) / info.channels;
    Tensor out = empty_plain({count, info.channels}, {DType::Float32, {}}, op);
    std::copy(samples.begin(), samples.end(), static_cast<float*>(static_cast<void*>(out.raw())));
    return {out, info.samplerate};
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) {
    input.refuse(e.what());
  }
}

}  // namespace moonlet::io

#else

namespace moonlet::io {

std::string sound_unavailable() { return "this build has no libsndfile (Debian: libsndfile1-dev)"; }

Sound read_sound(const std::string& path, SoundPart, const char* op, int64_t) {
  fail(op, ": '", path, "': this sound needs libsndfile, and ", sound_unavailable(),
       "; WAV files work without it");
}

}  // namespace moonlet::io

#endif
