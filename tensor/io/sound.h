// tensor/io/sound.h: sound as tensors of (samples, channels), float32 from -1 to 1: files that
// libsndfile reads, and the compressed samples of WAV files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/core/tensor.h"

namespace moonlet::io {

struct Sound {
  Tensor samples;
  int64_t rate = 0;  // samples per second
};

// What of a file is read: `count` samples of each channel behind the first `offset`; -1 for all.
struct SoundPart {
  int64_t offset = 0, count = -1;
};

// Throws Error "OP: 'PATH': reason", also where the samples take more than `max_bytes` (0: as
// read_limit says).
Sound read_sound(const std::string& path, SoundPart part, const char* op, int64_t max_bytes = 0);
// Why files cannot be read here; empty where they can.
std::string sound_unavailable();

// Blocks of ADPCM, which hold samples of 4 bits as differences.
struct AdpcmFormat {
  bool microsoft = false;  // else that of the IMA
  int64_t channels = 1, block_bytes = 0;
  std::string_view coefficients;  // Microsoft's pairs of 16 bits
};

// The samples of a block of `bytes` bytes; 0 where they are no block.
int64_t adpcm_block_samples(const AdpcmFormat& format, int64_t bytes);
// All whole samples of whole blocks and of what is left of the last one. Throws Error with the
// reason alone.
Tensor decode_adpcm(std::string_view data, const AdpcmFormat& format, const char* op);

}  // namespace moonlet::io
