// tensor/io/picture_webp.cpp: WebP pictures by libwebp, which is loaded when one is read.
#include "moonlet_config.h"
#include "tensor/core/error.h"
#include "tensor/io/picture_frames.h"

#if MOONLET_WEBP

#include <memory>

#include <webp/decode.h>
#include <webp/demux.h>

#include "tensor/io/late_library.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

struct WebP {
  decltype(&::WebPGetFeaturesInternal) features = nullptr;
  decltype(&::WebPDecodeRGBAInto) decode = nullptr;
  decltype(&::WebPAnimDecoderOptionsInitInternal) init_options = nullptr;
  decltype(&::WebPAnimDecoderNewInternal) make = nullptr;
  decltype(&::WebPAnimDecoderGetNext) next = nullptr;
  decltype(&::WebPAnimDecoderHasMoreFrames) has_more = nullptr;
  decltype(&::WebPAnimDecoderDelete) remove = nullptr;
  std::string missing;

  WebP() {
    LateLibrary library("libwebp", "libwebpdemux.so.2");
    library.find("WebPGetFeaturesInternal", features);
    library.find("WebPDecodeRGBAInto", decode);
    library.find("WebPAnimDecoderOptionsInitInternal", init_options);
    library.find("WebPAnimDecoderNewInternal", make);
    library.find("WebPAnimDecoderGetNext", next);
    library.find("WebPAnimDecoderHasMoreFrames", has_more);
    library.find("WebPAnimDecoderDelete", remove);
    missing = library.missing;
  }
};

const WebP& webp() {
  static const WebP functions;
  return functions;
}

struct AnimationDeleter {
  void operator()(WebPAnimDecoder* decoder) const { webp().remove(decoder); }
};

const uint8_t* bytes_of(std::string_view data) {
  return static_cast<const uint8_t*>(static_cast<const void*>(data.data()));
}

[[noreturn]] void damaged() { fail("the WebP picture is damaged"); }

void read_animation(std::string_view data, bool all, uint64_t size, ReadBudget& budget,
                    Frames& frames) {
  WebPAnimDecoderOptions options;
  if (webp().init_options(&options, WEBP_DEMUX_ABI_VERSION) == 0) damaged();
  options.color_mode = MODE_RGBA;
  options.use_threads = 0;
  const WebPData file{bytes_of(data), data.size()};
  const std::unique_ptr<WebPAnimDecoder, AnimationDeleter> decoder(
      webp().make(&file, &options, WEBP_DEMUX_ABI_VERSION));
  if (decoder == nullptr) damaged();
  do {
    stop_if_requested();
    uint8_t* frame = nullptr;
    int time = 0;
    budget.take(size);
    if (webp().next(decoder.get(), &frame, &time) == 0) damaged();
    frames.rgba.emplace_back(frame, frame + size);
  } while (all && webp().has_more(decoder.get()) != 0);
}

void read_still(std::string_view data, uint64_t size, ReadBudget& budget, Frames& frames) {
  budget.take(size);
  std::vector<uint8_t>& frame = frames.rgba.emplace_back(size);
  if (webp().decode(bytes_of(data), data.size(), frame.data(), frame.size(),
                    static_cast<int>(4 * frames.width)) == nullptr)
    damaged();
}

}  // namespace

std::string webp_unavailable() { return webp().missing; }

Frames decode_webp(std::string_view data, bool all, ReadBudget& budget) {
  // What libwebp holds of a picture beside the result: the pixels that it decodes, those of the
  // frame before and what a frame leaves behind.
  constexpr uint64_t kCopies = 4;
  if (!webp().missing.empty()) fail("WebP pictures need libwebp, and ", webp().missing);
  WebPBitstreamFeatures features;
  const VP8StatusCode status =
      webp().features(bytes_of(data), data.size(), &features, WEBP_DECODER_ABI_VERSION);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) fail("the file is cut off");
  if (status != VP8_STATUS_OK || features.width < 1 || features.height < 1) damaged();
  Frames frames;
  frames.width = features.width;
  frames.height = features.height;
  frames.alpha = features.has_alpha != 0;
  const auto size = static_cast<uint64_t>(4 * frames.width * frames.height);
  budget.take(kCopies * size);
  if (features.has_animation != 0)
    read_animation(data, all, size, budget, frames);
  else
    read_still(data, size, budget, frames);
  return frames;
}

}  // namespace moonlet::io

#else

namespace moonlet::io {

std::string webp_unavailable() { return "this build has no libwebp (Debian: libwebp-dev)"; }

Frames decode_webp(std::string_view, bool, ReadBudget&) {
  fail("WebP pictures need libwebp, and ", webp_unavailable());
}

}  // namespace moonlet::io

#endif
