// interp/binding/print.cpp: the text of a tensor: aligned columns, one format for all elements,
// large tensors summarised, and a last line with shape, dtype, device and history.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "autograd/tape.h"
#include "interp/binding/tensor_userdata.h"
#include "interp/binding/uses_print.h"
#include "tensor/dispatch.h"

namespace moonlet::binding {
namespace {

constexpr int64_t kSummariseAbove = 1000;
constexpr int64_t kEdgeItems = 3;
constexpr size_t kLineWidth = 80;

enum class Style { Integer, WholeFloat, Fixed, Scientific };

// One way to write all shown numbers, so that columns align.
struct Format {
  Style style = Style::Integer;
  int width = 0;
};

std::string number_text(double value, Style style) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto form =
      style == Style::Scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const int digits = style == Style::WholeFloat ? 0 : 4;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, form, digits);
  return std::string(buffer, end.ptr) + (style == Style::WholeFloat ? "." : "");
}

class Printer {
 public:
  Printer(const Tensor& x, int64_t most) : x_(x), summarise_(x.numel() > most) {}

  std::string run() {
    if (x_.numel() == 0) return "{}";
    choose_style();
    measure(0, x_.offset());
    write(0, x_.offset());
    return std::move(out_);
  }

 private:
  // Calls f with each shown position of a dimension; -1 stands for those left out.
  template <class F>
  void each(int dim, F&& f) {
    const int64_t size = x_.size(dim);
    if (!summarise_ || size <= 2 * kEdgeItems) {
      for (int64_t i = 0; i < size; ++i) f(i);
      return;
    }
    for (int64_t i = 0; i < kEdgeItems; ++i) f(i);
    f(int64_t{-1});
    for (int64_t i = size - kEdgeItems; i < size; ++i) f(i);
  }

  // Calls f with the storage position of each shown element.
  template <class F>
  void visit_shown(int dim, int64_t at, F&& f) {
    if (dim == x_.dim()) {
      f(at);
      return;
    }
    each(dim, [&](int64_t i) {
      if (i >= 0) visit_shown(dim + 1, at + i * x_.stride(dim), f);
    });
  }

  complex128 value(int64_t at) const {
    return visit(x_.dtype(), [&]<class T>() -> complex128 {
      const T element = reinterpret_cast<const T*>(x_.storage().data())[at];
      if constexpr (is_complex_v<T>)
        return complex128(element);
      else
        return complex128(static_cast<double>(element), 0);
    });
  }

  void note(double part) {
    if (!std::isfinite(part)) return;
    whole_ = whole_ && part == std::floor(part);
    const double size = std::fabs(part);
    largest_ = std::max(largest_, size);
    if (size > 0) smallest_ = std::min(smallest_, size);
  }

  void choose_style() {
    if (!is_floating(x_.dtype()) && !is_complex(x_.dtype())) return;
    visit_shown(0, x_.offset(), [&](int64_t at) {
      note(value(at).real());
      if (is_complex(x_.dtype())) note(value(at).imag());
    });
    const bool any = largest_ > 0;
    if (whole_) {
      format_.style = largest_ < 1e8 ? Style::WholeFloat : Style::Scientific;
    } else {
      const bool wide = any && (largest_ / smallest_ > 1000 || largest_ > 1e8 || smallest_ < 1e-4);
      format_.style = wide ? Style::Scientific : Style::Fixed;
    }
  }

  std::string element(int64_t at) const {
    if (x_.dtype() == DType::Bool) return value(at).real() != 0 ? "true" : "false";
    if (format_.style == Style::Integer) return integer(at);
    const complex128 v = value(at);
    std::string out = number_text(v.real(), format_.style);
    if (is_complex(x_.dtype())) {
      const std::string imag = number_text(v.imag(), format_.style);
      if (imag[0] != '-') out += '+';
      out += imag + "i";
    }
    return out;
  }

  // Not through double, which has too few digits for int64.
  std::string integer(int64_t at) const {
    return visit<dtypes::integral>(x_.dtype(), [&]<class T>() {
      return std::to_string(reinterpret_cast<const T*>(x_.storage().data())[at]);
    });
  }

  void measure(int dim, int64_t at) {
    visit_shown(dim, at, [&](int64_t i) {
      format_.width = std::max(format_.width, static_cast<int>(element(i).size()));
    });
  }

  void write_padded(const std::string& text) {
    if (x_.dim() > 0)
      out_.append(format_.width - std::min<size_t>(text.size(), format_.width), ' ');
    out_ += text;
  }

  void write_row(int dim, int64_t at) {
    const size_t indent = dim + 1;
    size_t column = indent;
    bool first = true;
    each(dim, [&](int64_t i) {
      const size_t length = i < 0 ? 3 : format_.width;
      if (!first) {
        out_ += ',';
        if (column + length + 2 > kLineWidth) {
          out_ += '\n';
          out_.append(indent, ' ');
          column = indent;
        } else {
          out_ += ' ';
          column += 2;
        }
      }
      first = false;
      if (i < 0)
        out_ += "...";
      else
        write_padded(element(at + i * x_.stride(dim)));
      column += length;
    });
  }

  void write(int dim, int64_t at) {
    if (dim == x_.dim()) {
      write_padded(element(at));
      return;
    }
    out_ += '{';
    if (dim + 1 == x_.dim()) {
      write_row(dim, at);
    } else {
      bool first = true;
      each(dim, [&](int64_t i) {
        if (!first) {
          out_ += ',';
          out_.append(x_.dim() - dim - 1, '\n');
          out_.append(dim + 1, ' ');
        }
        first = false;
        if (i < 0)
          out_ += "...";
        else
          write(dim + 1, at + i * x_.stride(dim));
      });
    }
    out_ += '}';
  }

  const Tensor& x_;
  const bool summarise_;
  Format format_;
  bool whole_ = true;
  double largest_ = 0, smallest_ = INFINITY;
  std::string out_;
};

std::string description(const Tensor& x) {
  std::string out = text("Tensor ", x.sizes(), " ", x.dtype());
  if (!x.device().is_cpu()) append(out, text(" ", x.device()));
  const std::string fn = grad_fn_name(x);
  if (!fn.empty())
    append(out, text(" grad_fn=", fn));
  else if (x.requires_grad())
    append(out, " requires_grad");
  return out;
}

}  // namespace

std::string format_elements(const Tensor& x, int64_t most) {
  GradModeGuard off(false);
  return Printer(on_host(detach(x)), most).run();
}

std::string format_tensor(const Tensor& x) {
  std::string out = format_elements(x, kSummariseAbove);
  out += x.dim() == 0 ? "  " : "\n";
  return out + description(x);
}

}  // namespace moonlet::binding
