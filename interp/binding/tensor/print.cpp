// interp/binding/tensor/print.cpp: the text of a tensor: aligned columns, one format for all
// elements, large tensors summarised, and a last line with shape, dtype, device and history.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/uses_print.h"
#include "tensor/core/dispatch.h"
#include "tensor/memory/free_list.h"
#include "tensor/program/captured_call.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::binding {
namespace {

enum class Style { Integer, WholeFloat, Fixed, Scientific };

// One way to write all shown numbers, so that columns align.
struct Format {
  Style style = Style::Integer;
  int width = 0;
};

std::string number_text(double value, Style style, int precision) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[400];
  const auto form =
      style == Style::Scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const int digits = style == Style::WholeFloat ? 0 : precision;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, form, digits);
  return std::string(buffer, end.ptr) + (style == Style::WholeFloat ? "." : "");
}

class Printer {
 public:
  Printer(const Tensor& x, const PrintOptions& options)
      : x_(x), options_(options), summarise_(x.numel() > options.threshold) {}

  std::string run() {
    if (x_.numel() == 0) return "{}";
    choose_style();
    measure(0, x_.offset());
    write(0, x_.offset());
    return std::move(out_);
  }

 private:
  // Before an element is looked at or written.
  void step() {
    if (++steps_ % kStopStep == 0) stop_if_requested();
    grown_.reach(out_.capacity());
  }

  // Calls f with each shown position of a dimension; -1 stands for those left out.
  template <class F>
  void each(int dim, F&& f) {
    const int64_t size = x_.size(dim);
    if (!summarise_ || size <= 2 * options_.edge_items) {
      for (int64_t i = 0; i < size; ++i) f(i);
      return;
    }
    for (int64_t i = 0; i < options_.edge_items; ++i) f(i);
    f(int64_t{-1});
    for (int64_t i = size - options_.edge_items; i < size; ++i) f(i);
  }

  // Calls f with the storage position of each shown element.
  template <class F>
  void visit_shown(int dim, int64_t at, F&& f) {
    if (dim == x_.dim()) {
      step();
      f(at);
      return;
    }
    each(dim, [&](int64_t i) {
      if (i >= 0) visit_shown(dim + 1, at + i * x_.stride(dim), f);
    });
  }

  complex128 value(int64_t at) const {
    return visit<dtypes::any>(x_.dtype(), [&]<class T>() -> complex128 {
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
    const bool spread = largest_ > 0 && (largest_ / smallest_ > 1000 || smallest_ < 1e-4);
    const bool wide = largest_ > 1e8 || (whole_ ? largest_ >= 1e8 : spread);
    format_.style = options_.sci_mode.value_or(wide) ? Style::Scientific
                    : whole_                         ? Style::WholeFloat
                                                     : Style::Fixed;
  }

  std::string element(int64_t at) const {
    if (x_.dtype() == DType::Bool) return value(at).real() != 0 ? "true" : "false";
    if (format_.style == Style::Integer) return integer(at);
    const complex128 v = value(at);
    std::string out = number_text(v.real(), format_.style, options_.precision);
    if (is_complex(x_.dtype())) {
      const std::string imag = number_text(v.imag(), format_.style, options_.precision);
      if (imag[0] != '-') out += '+';
      out += imag + "i";
    }
    return out;
  }

  // Not through double, which has too few digits for int64.
  std::string integer(int64_t at) const {
    return visit<dtypes::integral | dtypes::storage_unsigned>(x_.dtype(), [&]<class T>() {
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
      step();
      if (!first) {
        out_ += ',';
        if (column + length + 2 > options_.line_width) {
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
  const PrintOptions& options_;
  const bool summarise_;
  Format format_;
  bool whole_ = true;
  double largest_ = 0, smallest_ = INFINITY;
  static constexpr int64_t kStopStep = 4096;
  int64_t steps_ = 0;
  std::string out_;
  memory::Growth grown_;  // by which the text is charged
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

// The options of a profile by name.
PrintOptions profile_of(std::string_view name) {
  PrintOptions out;
  if (name == "short") {
    out.precision = 2;
    out.edge_items = 2;
  } else if (name == "full") {
    out.threshold = INT64_MAX;
  } else if (name != "default") {
    fail("set_printoptions: profile is \"default\", \"short\" or \"full\", got \"", name, "\"");
  }
  return out;
}

constexpr ArgSpec kPrintArgs[] = {
    {"precision", ArgType::Int, false},  {"threshold", ArgType::Float, false},
    {"edgeitems", ArgType::Int, false},  {"linewidth", ArgType::Int, false},
    {"profile", ArgType::String, false}, {"sci_mode", ArgType::Bool, false}};
const Signature kPrintSignature = {
    "set_printoptions",
    "set_printoptions(precision=nil, threshold=nil, edgeitems=nil, linewidth=nil, profile=nil, "
    "sci_mode=nil)",
    kPrintArgs, std::size(kPrintArgs)};

// Options that are not named stay as they are, but for sci_mode, which is then automatic.
int l_set_printoptions(lua_State* L) {
  ArgReader args(L, kPrintSignature);
  PrintOptions out = args.has(4) ? profile_of(args.string(4)) : binding_state(L).print;
  const auto read = [&](int i, int64_t least, int64_t most) {
    const int64_t value = args.integer(i);
    check(value >= least && value <= most, "set_printoptions: ", kPrintArgs[i].name, " is ", value,
          ", and ", least, " to ", most, " are possible");
    return value;
  };
  if (args.has(0)) out.precision = static_cast<int>(read(0, 0, 40));
  if (args.has(1)) {
    const double threshold = args.number(1);
    check(threshold >= 0, "set_printoptions: threshold is ", threshold,
          ", and 0 or more is expected");
    out.threshold = threshold < 9e18 ? static_cast<int64_t>(threshold) : INT64_MAX;
  }
  if (args.has(2)) out.edge_items = read(2, 1, 1 << 20);
  if (args.has(3)) out.line_width = static_cast<size_t>(read(3, 1, 1 << 20));
  out.sci_mode = args.has(5) ? std::optional<bool>(args.boolean(5)) : std::nullopt;
  binding_state(L).print = out;
  return 0;
}

}  // namespace

std::string format_elements(const Tensor& x, const PrintOptions& options) {
  program::note_values_read("a text of elements");
  GradModeGuard off(false);
  return Printer(on_host(detach(x)), options).run();
}

std::string format_tensor(const Tensor& x, const PrintOptions& options) {
  std::string out = format_elements(x, options);
  out += x.dim() == 0 ? "  " : "\n";
  return out + description(x);
}

void register_print(lua_State* L) {
  static const luaL_Reg kModule[] = {{"set_printoptions", guard<l_set_printoptions>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
