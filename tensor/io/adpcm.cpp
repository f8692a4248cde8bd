// tensor/io/adpcm.cpp: samples of 4 bits in blocks, each the difference from what the samples
// before it make likely. Formats: the IMA's "Recommended Practices for Enhancing Digital Audio
// Compatibility in Multimedia Systems", Microsoft's "New Multimedia Data Types and Data
// Techniques".
#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/core/error.h"
#include "tensor/io/sound.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

constexpr int kLastStep = 88;

// Each step is a tenth more than the one before, rounded down: the table of the IMA from 7 to
// 32767.
constexpr std::array<int16_t, kLastStep + 1> kSteps{
    7,     8,     9,     10,    11,    12,    13,    14,    16,    17,    19,   21,    23,
    25,    28,    31,    34,    37,    41,    45,    50,    55,    60,    66,   73,    80,
    88,    97,    107,   118,   130,   143,   157,   173,   190,   209,   230,  253,   279,
    307,   337,   371,   408,   449,   494,   544,   598,   658,   724,   796,  876,   963,
    1060,  1166,  1282,  1411,  1552,  1707,  1878,  2066,  2272,  2499,  2749, 3024,  3327,
    3660,  4026,  4428,  4871,  5358,  5894,  6484,  7132,  7845,  8630,  9493, 10442, 11487,
    12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794, 32767};
constexpr std::array<int, 8> kStepChanges{-1, -1, -1, -1, 2, 4, 6, 8};
constexpr std::array<int, 16> kScales{230, 230, 230, 230, 307, 409, 512, 614,
                                      768, 614, 512, 409, 307, 230, 230, 230};

int byte_at(std::string_view data, int64_t at) {
  return static_cast<uint8_t>(data[static_cast<size_t>(at)]);
}

int word_at(std::string_view data, int64_t at) {
  return static_cast<int16_t>(byte_at(data, at) | byte_at(data, at + 1) << 8);
}

int clamp_16(int value) { return std::clamp(value, -32768, 32767); }

// Sample i of a channel is out[i * channels].
struct Channel {
  float* out;
  int64_t channels;
  void put(int64_t i, int value) const { out[i * channels] = static_cast<float>(value) / 32768; }
};

void decode_ima_channel(std::string_view block, const AdpcmFormat& format, int64_t channel,
                        int64_t samples, const Channel& to) {
  int value = word_at(block, 4 * channel);
  int step = std::clamp(byte_at(block, 4 * channel + 2), 0, kLastStep);
  to.put(0, value);
  for (int64_t i = 1; i < samples; ++i) {
    // Eight samples of each channel in turn.
    const int64_t at = 4 * format.channels * ((i - 1) / 8 + 1) + 4 * channel + (i - 1) % 8 / 2;
    const int code = byte_at(block, at) >> ((i - 1) % 2 * 4) & 15;
    const int size = kSteps[static_cast<size_t>(step)];
    int change = size >> 3;
    if (code & 1) change += size >> 2;
    if (code & 2) change += size >> 1;
    if (code & 4) change += size;
    value = clamp_16(code & 8 ? value - change : value + change);
    step = std::clamp(step + kStepChanges[static_cast<size_t>(code & 7)], 0, kLastStep);
    to.put(i, value);
  }
}

void decode_microsoft_channel(std::string_view block, const AdpcmFormat& format, int64_t channel,
                              int64_t samples, const Channel& to) {
  const int64_t channels = format.channels;
  const int set = byte_at(block, channel);
  if (size_t{4} * static_cast<size_t>(set) + 4 > format.coefficients.size())
    fail("a block of its samples names coefficients that the file does not have");
  const int first = word_at(format.coefficients, 4 * set);
  const int second = word_at(format.coefficients, 4 * set + 2);
  int scale = word_at(block, channels + 2 * channel);
  int last = word_at(block, 3 * channels + 2 * channel);
  int before = word_at(block, 5 * channels + 2 * channel);
  to.put(0, before);
  if (samples > 1) to.put(1, last);
  for (int64_t i = 2; i < samples; ++i) {
    const int64_t position = (i - 2) * channels + channel;
    const int code =
        byte_at(block, 7 * channels + position / 2) >> (position % 2 == 0 ? 4 : 0) & 15;
    const int64_t likely = (int64_t{last} * first + int64_t{before} * second) >> 8;
    const int64_t value = likely + int64_t{code < 8 ? code : code - 16} * scale;
    before = last;
    last = static_cast<int>(std::clamp<int64_t>(value, -32768, 32767));
    const int64_t next = int64_t{kScales[static_cast<size_t>(code)]} * scale >> 8;
    scale = static_cast<int>(std::clamp<int64_t>(next, 16, 1 << 20));
    to.put(i, last);
  }
}

}  // namespace

int64_t adpcm_block_samples(const AdpcmFormat& format, int64_t bytes) {
  const int64_t channels = format.channels;
  if (format.microsoft) return bytes < 7 * channels ? 0 : 2 + (bytes - 7 * channels) * 2 / channels;
  return bytes < 4 * channels ? 0 : 1 + (bytes - 4 * channels) / (4 * channels) * 8;
}

Tensor decode_adpcm(std::string_view data, const AdpcmFormat& format, const char* op) {
  const auto size = static_cast<int64_t>(data.size());
  const int64_t whole = size / format.block_bytes, rest = size % format.block_bytes;
  const int64_t in_block = adpcm_block_samples(format, format.block_bytes);
  const int64_t samples = whole * in_block + adpcm_block_samples(format, rest);
  Tensor out = empty_plain({samples, format.channels}, {DType::Float32, {}}, op);
  auto* to = static_cast<float*>(static_cast<void*>(out.raw()));
  for (int64_t block = 0, at = 0; at < samples; ++block, at += in_block) {
    if (block % 1024 == 0) stop_if_requested();
    const std::string_view bytes = data.substr(static_cast<size_t>(block * format.block_bytes),
                                               static_cast<size_t>(format.block_bytes));
    const int64_t count = std::min(in_block, samples - at);
    for (int64_t channel = 0; channel < format.channels; ++channel) {
      const Channel of_block{to + at * format.channels + channel, format.channels};
      if (format.microsoft)
        decode_microsoft_channel(bytes, format, channel, count, of_block);
      else
        decode_ima_channel(bytes, format, channel, count, of_block);
    }
  }
  return out;
}

}  // namespace moonlet::io
