// interp/c/op_arguments.cpp: C values to boxed ones, by the type that the row says.
#include "interp/c/op_arguments.h"

#include <cstdlib>

#include "interp/c/calls.h"
#include "tensor/core/layout.h"
#include "tensor/runtime/execution.h"

namespace moonlet::c {
namespace {

std::string_view plain(std::string_view type) {
  if (type.ends_with('?')) type.remove_suffix(1);
  return type;
}

bool is_index(std::string_view type) {
  return type == "int" || type == "Dim" || type == "NewDim" || type == "Index";
}

// How a type is called in messages.
const char* wanted_of(std::string_view type) {
  if (type == "Tensor" || type == "Mask" || type == "Positions") return "a tensor";
  if (type == "Operand") return "a tensor or a number";
  if (type == "Scalar" || type == "float") return "a number";
  if (type.starts_with("Tensor") || type == "Indices") return "a list of tensors";
  if (type == "float[*]") return "a list of numbers";
  if (is_index(type)) return "an integer";
  if (type == "bool" || type == "false") return "a boolean";
  if (type == "string") return "a string";
  if (type == "DType") return "a dtype";
  if (type == "Device") return "the name of a device";
  if (type == "MemoryFormat") return "the name of a memory format";
  if (type == "Options") return "a placement";
  if (type == "Generator") return "nil";
  return "a list of integers";
}

// One value of a row's type.
class Reader {
 public:
  Reader(const moonlet_value& value, const OpInfo& op, const OpArgument& argument)
      : value_(value), op_(op), argument_(argument), type_(plain(argument.type)) {}

  BoxedValue read() const {
    if (type_ == "Tensor" || type_ == "Mask" || type_ == "Positions") return tensor();
    if (type_ == "Operand" && value_.kind == MOONLET_TENSOR) return tensor();
    if (type_ == "Operand" || type_ == "Scalar") return scalar();
    if (type_.starts_with("Tensor") || type_ == "Indices") return tensors();
    if (type_ == "float[*]") return numbers();
    if (is_index(type_)) return integer();
    if (type_ == "float") return number();
    if (type_ == "bool" || type_ == "false") return boolean();
    if (type_ == "string") return std::string(string());
    if (type_ == "DType") return dtype();
    if (type_ == "Device") return device_from_name(string());
    if (type_ == "MemoryFormat") return memory_format_from_name(string());
    if (type_ == "Options") return placement();
    if (type_.find('[') != type_.npos) return integers();
    bad();
  }

 private:
  [[noreturn]] void bad() const {
    const std::string got = value_.kind == MOONLET_TENSOR
                                ? describe_handle(value_.as.tensor)
                                : std::string("a value of kind ") + moonlet_kind_name(value_.kind);
    refuse(op_.name, ": argument '", argument_.name, "': expected ", wanted_of(type_), ", got ",
           got);
  }

  const Tensor& tensor_at(moonlet_tensor handle, Tensor& keep) const {
    auto* impl = static_cast<TensorImpl*>(payload_of(handle, HandleKind::Tensor));
    if (impl == nullptr)
      refuse(op_.name, ": argument '", argument_.name, "': expected a tensor, got ",
             describe_handle(handle));
    impl->references.fetch_add(1, std::memory_order_relaxed);
    keep = Tensor::adopt(impl);
    return keep;
  }

  BoxedValue tensor() const {
    if (value_.kind != MOONLET_TENSOR) bad();
    Tensor out;
    tensor_at(value_.as.tensor, out);
    return out;
  }

  BoxedValue scalar() const {
    switch (value_.kind) {
      case MOONLET_BOOLEAN: return Scalar(value_.as.boolean != 0);
      case MOONLET_INTEGER: return Scalar(value_.as.integer);
      case MOONLET_NUMBER: return Scalar(value_.as.number);
      case MOONLET_COMPLEX:
        return Scalar(complex128(value_.as.complex128.real, value_.as.complex128.imag));
      default: bad();
    }
  }

  template <class List>
  void check_list(const List& list) const {
    if (list.data == nullptr && list.size > 0)
      refuse(op_.name, ": argument '", argument_.name, "': expected ", list.size,
             " items, got null");
  }

  BoxedValue tensors() const {
    if (value_.kind != MOONLET_TENSORS) bad();
    check_list(value_.as.tensors);
    std::vector<Tensor> out(value_.as.tensors.size);
    for (size_t i = 0; i < out.size(); ++i) {
      const moonlet_tensor handle = value_.as.tensors.data[i];
      if (handle != nullptr || type_ == "Tensor[]") tensor_at(handle, out[i]);
    }
    return out;
  }

  BoxedValue numbers() const {
    if (value_.kind != MOONLET_NUMBERS) bad();
    check_list(value_.as.numbers);
    return std::vector<double>(value_.as.numbers.data,
                               value_.as.numbers.data + value_.as.numbers.size);
  }

  BoxedValue integer() const {
    if (value_.kind != MOONLET_INTEGER) bad();
    return value_.as.integer;
  }

  BoxedValue number() const {
    if (value_.kind == MOONLET_INTEGER) return static_cast<double>(value_.as.integer);
    if (value_.kind != MOONLET_NUMBER) bad();
    return value_.as.number;
  }

  BoxedValue boolean() const {
    if (value_.kind != MOONLET_BOOLEAN) bad();
    return value_.as.boolean != 0;
  }

  std::string_view string() const {
    if (value_.kind != MOONLET_STRING) bad();
    check_list(value_.as.string);
    return {value_.as.string.size > 0 ? value_.as.string.data : "", value_.as.string.size};
  }

  BoxedValue dtype() const {
    if (value_.kind == MOONLET_DTYPE) return dtype_in(value_.as.dtype, op_.name);
    return dtype_from_name(string());
  }

  BoxedValue placement() const {
    if (value_.kind == MOONLET_DTYPE)
      return Options{dtype_in(value_.as.dtype, op_.name), execution.default_device};
    if (value_.kind != MOONLET_PLACEMENT) bad();
    return Options{dtype_in(value_.as.placement.dtype, op_.name),
                   device_in(value_.as.placement.device)};
  }

  BoxedValue integers() const {
    const bool long_list = type_.ends_with("[*]") && !type_.starts_with("Dim");
    if (value_.kind == MOONLET_INTEGER) {
      // One for all of a list of a fixed length.
      const int length =
          type_.starts_with("int[") && type_[4] >= '1' && type_[4] <= '9' ? type_[4] - '0' : 1;
      if (long_list) return std::vector<int64_t>{value_.as.integer};
      return Dims::filled(length, value_.as.integer);
    }
    if (value_.kind != MOONLET_INTEGERS) bad();
    check_list(value_.as.integers);
    const int64_t* first = value_.as.integers.data;
    const size_t size = value_.as.integers.size;
    if (long_list) return std::vector<int64_t>(first, first + size);
    if (size > kMaxDims)
      refuse(op_.name, ": argument '", argument_.name, "': expected at most ", kMaxDims,
             " integers, got ", size);
    return Dims(first, static_cast<int>(size));
  }

  const moonlet_value& value_;
  const OpInfo& op_;
  const OpArgument& argument_;
  std::string_view type_;
};

// A number as rows write defaults, from which `text` moves on.
double number_in(const char*& text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  text = end;
  return value;
}

BoxedValue list_of(const char* text, std::string_view type) {
  std::vector<double> numbers;
  for (++text; *text != '}' && *text != '\0';) {
    if (*text == ',' || *text == ' ')
      ++text;
    else
      numbers.push_back(number_in(text));
  }
  if (type == "float[*]") return numbers;
  std::vector<int64_t> out(numbers.begin(), numbers.end());
  if (type == "int[*]" || type == "Index[*]") return out;
  return Dims(out.data(), static_cast<int>(out.size()));
}

}  // namespace

int argument_count(const OpInfo& op) {
  return op.row->argument_count + (op.form == OpInfo::Form::Out ? op.row->result_count : 0);
}

OpArgument argument_at(const OpInfo& op, int i) {
  if (op.form == OpInfo::Form::Out) {
    static constexpr const char* kOut[] = {"out1", "out2", "out3", "out4"};
    if (i < op.row->result_count)
      return {op.row->result_count == 1 ? "out" : kOut[std::min(i, 3)], "Tensor", nullptr};
    i -= op.row->result_count;
  }
  const ArgumentInfo& argument = op.row->arguments[i];
  return {argument.name, argument.type, argument.default_value};
}

BoxedValue boxed(const moonlet_value& value, const OpInfo& op, const OpArgument& argument) {
  return Reader(value, op, argument).read();
}

BoxedValue default_of(const OpInfo& op, const OpArgument& argument) {
  const std::string_view type = plain(argument.type);
  if (type == "Options") return Options{execution.default_dtype, execution.default_device};
  if (argument.default_value == nullptr) {
    if (std::string_view(argument.type).ends_with('?')) return {};
    refuse(op.name, ": argument '", argument.name, "': expected ", wanted_of(type), ", got none");
  }
  const char* text = argument.default_value;
  const std::string_view whole = text;
  if (whole == "nil") return {};
  if (whole == "true" || whole == "false") return whole == "true";
  if (type == "string") return std::string(whole.substr(1, whole.size() - 2));  // in quotes
  if (*text == '{') return list_of(text, type);
  const bool whole_number = whole.find_first_of(".e") == whole.npos;
  const double number = number_in(text);
  if (type == "Scalar" || type == "Operand")
    return whole_number ? Scalar(static_cast<int64_t>(number)) : Scalar(number);
  if (is_index(type)) return static_cast<int64_t>(number);
  return number;
}

}  // namespace moonlet::c
