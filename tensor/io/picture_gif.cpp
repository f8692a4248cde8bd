// tensor/io/picture_gif.cpp: GIF pictures, 87a and 89a, with their frames as a viewer shows them:
// on the frames before, as each says what becomes of it.
#include <algorithm>
#include <array>
#include <span>

#include "tensor/core/error.h"
#include "tensor/io/picture_frames.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

// What is left of a file, and its bytes one after the other.
class GifBytes {
 public:
  explicit GifBytes(std::string_view data) : data_(data) {}
  uint8_t byte() { return static_cast<uint8_t>(chars(1)[0]); }
  int64_t word() {
    const int64_t low = byte();
    return low | int64_t{byte()} << 8;
  }
  std::string_view chars(size_t count) {
    if (data_.size() - at_ < count) fail("the file is cut off");
    at_ += count;
    return data_.substr(at_ - count, count);
  }
  // Sub-blocks up to the empty one.
  void skip_blocks() {
    while (const uint8_t size = byte()) chars(size);
  }

 private:
  std::string_view data_;
  size_t at_ = 0;
};

// The codes of an image: bits from the lowest on, in sub-blocks.
class GifCodes {
 public:
  explicit GifCodes(GifBytes& bytes) : bytes_(bytes) {}
  int next(int size) {
    while (count_ < size) {
      if (block_.empty()) {
        const size_t length = bytes_.byte();
        if (length == 0) {
          ended_ = true;
          return -1;
        }
        block_ = bytes_.chars(length);
      }
      bits_ |= static_cast<uint32_t>(static_cast<uint8_t>(block_[0])) << count_;
      block_.remove_prefix(1);
      count_ += 8;
    }
    const uint32_t code = bits_ & ((1u << size) - 1);
    bits_ >>= size;
    count_ -= size;
    return static_cast<int>(code);
  }
  void finish() {
    if (!ended_) bytes_.skip_blocks();
  }

 private:
  GifBytes& bytes_;
  std::string_view block_;
  uint32_t bits_ = 0;
  int count_ = 0;
  bool ended_ = false;
};

// Welch's variant of Lempel and Ziv's compression, with codes of 12 bits at most.
class GifDecoder {
 public:
  GifDecoder(GifBytes& bytes, int root) : codes_(bytes), root_(root), clear_(1 << root) {
    for (int i = 0; i < clear_; ++i) first_[i] = last_[i] = static_cast<uint8_t>(i);
    std::fill_n(length_.begin(), clear_, 1);
    reset();
  }

  void decode(std::vector<uint8_t>& out) {
    constexpr int64_t kCodesAtOnce = 65536;
    size_t at = 0;
    for (int64_t i = 1; at < out.size(); ++i) {
      if (i % kCodesAtOnce == 0) stop_if_requested();
      const int code = codes_.next(size_);
      if (code == clear_) {
        reset();
      } else if (code < 0 || code == clear_ + 1) {
        fail("a frame of a GIF has too few pixels");
      } else {
        add(code);
        at = put(code, out, at);
      }
    }
    codes_.finish();
  }

 private:
  static constexpr int kMostBits = 12, kMost = 1 << kMostBits;

  void reset() {
    next_ = clear_ + 2;
    size_ = root_ + 1;
    before_ = -1;
  }

  // The string of the code before and one more, which may be the code itself.
  void add(int code) {
    if (code > next_ || (code == next_ && (before_ < 0 || next_ >= kMost)) ||
        (before_ < 0 && code > clear_))
      fail("a frame of a GIF is damaged");
    if (before_ >= 0 && next_ < kMost) {
      prefix_[next_] = static_cast<int16_t>(before_);
      first_[next_] = first_[before_];
      last_[next_] = first_[code == next_ ? before_ : code];
      length_[next_] = length_[before_] + 1;
      if (++next_ == 1 << size_ && size_ < kMostBits) ++size_;
    }
    before_ = code;
  }

  // The string of a code, from its end; what is behind the picture's end is left out.
  size_t put(int code, std::vector<uint8_t>& out, size_t at) const {
    const size_t end = at + static_cast<size_t>(length_[code]);
    for (size_t i = end; i-- > at; code = prefix_[code])
      if (i < out.size()) out[i] = last_[code];
    return std::min(end, out.size());
  }

  GifCodes codes_;
  int root_, clear_, next_ = 0, size_ = 0, before_ = -1;
  std::array<uint8_t, kMost> first_{}, last_{};
  std::array<int16_t, kMost> prefix_{};
  std::array<int, kMost> length_{};
};

struct Box {
  int64_t left = 0, top = 0, width = 0, height = 0;
};

using Color = std::array<uint8_t, 4>;

class Gif {
 public:
  Gif(std::string_view data, ReadBudget& budget) : bytes_(data), budget_(budget) {
    bytes_.chars(6);
    frames_.width = bytes_.word();
    frames_.height = bytes_.word();
    const uint8_t flags = bytes_.byte();
    const uint8_t background = bytes_.byte();
    bytes_.byte();
    if (flags & 0x80) global_ = table(flags);
    if (background < global_.size()) background_ = global_[background];
    background_[3] = 0;
  }

  Frames read(bool all) {
    for (;;) {
      const uint8_t kind = bytes_.byte();
      if (kind == 0x3b) break;
      if (kind == 0x21) {
        extension();
      } else if (kind == 0x2c) {
        stop_if_requested();
        image();
        if (!all) break;
      } else {
        fail("a block of a GIF is damaged");
      }
    }
    if (frames_.rgba.empty()) fail("it has no pixels");
    return std::move(frames_);
  }

 private:
  std::vector<Color> table(uint8_t flags) {
    std::vector<Color> out(size_t{2} << (flags & 7));
    for (Color& color : out) {
      const std::string_view rgb = bytes_.chars(3);
      for (size_t i = 0; i < 3; ++i) color[i] = static_cast<uint8_t>(rgb[i]);
      color[3] = 255;
    }
    return out;
  }

  void extension() {
    if (bytes_.byte() == 0xf9) {
      const size_t size = bytes_.byte();
      const std::string_view control = bytes_.chars(size);
      if (size >= 4) {
        const auto flags = static_cast<uint8_t>(control[0]);
        disposal_ = flags >> 2 & 7;
        transparent_ = flags & 1 ? static_cast<uint8_t>(control[3]) : -1;
      }
      if (size == 0) return;
    }
    bytes_.skip_blocks();
  }

  // Reserves the picture at the first frame, which may be larger than the screen says.
  void start(const Box& box) {
    frames_.width = std::max(frames_.width, box.width);
    frames_.height = std::max(frames_.height, box.height);
    const auto size = static_cast<uint64_t>(4 * frames_.width * frames_.height);
    budget_.take(size);
    canvas_.resize(size);
    clear({0, 0, frames_.width, frames_.height});
  }

  void clear(const Box& box) {
    for (int64_t y = box.top; y < std::min(box.top + box.height, frames_.height); ++y)
      for (int64_t x = box.left; x < std::min(box.left + box.width, frames_.width); ++x)
        std::copy(background_.begin(), background_.end(), pixel(x, y));
  }

  uint8_t* pixel(int64_t x, int64_t y) { return canvas_.data() + 4 * (y * frames_.width + x); }

  void image() {
    Box box{bytes_.word(), bytes_.word(), bytes_.word(), bytes_.word()};
    const uint8_t flags = bytes_.byte();
    const std::vector<Color> local = flags & 0x80 ? table(flags) : std::vector<Color>();
    const std::span<const Color> colors(local.empty() ? global_ : local);
    const int root = bytes_.byte();
    if (box.width < 1 || box.height < 1) fail("it has no pixels");
    if (colors.empty()) fail("a frame of a GIF has no colors");
    if (root < 1 || root > 8) fail("a frame of a GIF is damaged");
    if (frames_.rgba.empty()) start(box);
    const auto count = static_cast<uint64_t>(box.width * box.height);
    budget_.take(count);
    std::vector<uint8_t> indices(count);
    GifDecoder(bytes_, root).decode(indices);
    show(box, indices, colors, (flags & 0x40) != 0);
    budget_.give_back(count);
  }

  void show(const Box& box, const std::vector<uint8_t>& indices, std::span<const Color> colors,
            bool interlaced) {
    budget_.take(canvas_.size());
    const std::vector<uint8_t> before = disposal_ == 3 ? canvas_ : std::vector<uint8_t>();
    draw(box, indices, colors, interlaced);
    for (size_t i = 3; i < canvas_.size() && !frames_.alpha; i += 4)
      frames_.alpha = canvas_[i] != 255;
    frames_.rgba.push_back(canvas_);
    if (disposal_ == 2) clear(box);
    if (disposal_ == 3) canvas_ = before;
    disposal_ = 0;
    transparent_ = -1;
  }

  void draw(const Box& box, const std::vector<uint8_t>& indices, std::span<const Color> colors,
            bool interlaced) {
    const uint8_t* row = indices.data();
    const auto draw_row = [&](int64_t y) {
      for (int64_t x = 0; x < box.width && y + box.top < frames_.height; ++x) {
        if (x + box.left >= frames_.width || row[x] == transparent_) continue;
        const Color color = row[x] < colors.size() ? colors[row[x]] : Color{0, 0, 0, 255};
        std::copy(color.begin(), color.end(), pixel(x + box.left, y + box.top));
      }
      row += box.width;
    };
    constexpr std::array<std::array<int64_t, 2>, 4> kPasses{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
    if (!interlaced)
      for (int64_t y = 0; y < box.height; ++y) draw_row(y);
    else
      for (const auto& [first, step] : kPasses)
        for (int64_t y = first; y < box.height; y += step) draw_row(y);
  }

  GifBytes bytes_;
  ReadBudget& budget_;
  Frames frames_;
  std::vector<Color> global_;
  Color background_{};
  std::vector<uint8_t> canvas_;
  int disposal_ = 0, transparent_ = -1;
};

}  // namespace

Frames decode_gif(std::string_view data, bool all, ReadBudget& budget) {
  return Gif(data, budget).read(all);
}

}  // namespace moonlet::io
