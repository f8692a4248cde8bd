// autograd/native/native_op.cpp: declarations of ops in C++: what is said of them, the checks of
// it, and their descriptions.
#include "autograd/native/native_op.h"

#include <algorithm>
#include <cctype>
#include <mutex>

#include "autograd/batching.h"
#include "autograd/native/native_record.h"
#include "tensor/core/registered_ops.h"
#include "tensor/runtime/backend.h"

namespace moonlet {

const char kNativeFamily[] = "native";

using detail::NativeEntries;

// --- what is said --------------------------------------------------------------------------------

NativeOp::NativeOp(const NativeEntries& entries)
    : record_(std::make_unique<NativeRecord>()), entries_(entries) {
  record_->schema = parse_op_schema(entries.schema);
}
NativeOp::~NativeOp() = default;

const OpSchema& NativeOp::schema() const { return record_->schema; }

NativeOp& NativeOp::dtypes(DTypeSet set) {
  record_->dtypes = set;
  record_->dtypes_given = true;
  return *this;
}
NativeOp& NativeOp::mixed() {
  record_->mixed = true;
  return *this;
}
NativeOp& NativeOp::set_pointwise(std::vector<detail::NativePointwise> forms) {
  record_->pointwise_forms = std::move(forms);
  record_->kind = OpKind::Pointwise;
  return *this;
}
NativeOp& NativeOp::pointwise_on(const char* device, void (*launch)(const PointwisePlan& plan)) {
  record_->launches.push_back({device_type_from_name(device), launch});
  return *this;
}
NativeOp& NativeOp::add_kernel(const char* device, detail::NativeKernel kernel) {
  record_->kernels.push_back({device_type_from_name(device), std::move(kernel)});
  return *this;
}
NativeOp& NativeOp::set_shape(detail::NativeShape shape) {
  record_->shape = std::move(shape);
  return *this;
}
NativeOp& NativeOp::set_body(detail::NativeBody body) {
  record_->body = std::move(body);
  return *this;
}

NativeOp& NativeOp::saves(std::initializer_list<const char*> names) {
  record_->saved.assign(names.begin(), names.end());
  return *this;
}
namespace {
int position_of(const OpSchema& schema, const char* argument) {
  const int at = schema.find(argument);
  if (at < 0)
    fail(schema.name, ": a gradient is declared of '", argument, "', which is no argument");
  return at;
}
}  // namespace
NativeOp& NativeOp::gradient(const char* argument, std::function<Tensor(const Derivative&)> f) {
  return gradients({argument},
                   [f = std::move(f)](const Derivative& d) { return std::vector<Tensor>{f(d)}; });
}
NativeOp& NativeOp::gradients(std::initializer_list<const char*> arguments,
                              std::function<std::vector<Tensor>(const Derivative&)> f) {
  NativeRecord::Gradient made{{}, std::move(f)};
  for (const char* each : arguments) made.arguments.push_back(position_of(record_->schema, each));
  record_->gradients.push_back(std::move(made));
  return *this;
}
NativeOp& NativeOp::nondifferentiable(std::initializer_list<const char*> results) {
  record_->without_gradient.assign(results.begin(), results.end());
  return *this;
}
NativeOp& NativeOp::jvp(std::function<std::vector<Tensor>(const JvpArguments&)> f) {
  record_->jvp = std::move(f);
  return *this;
}
NativeOp& NativeOp::linear() {
  record_->linear = true;
  return *this;
}
NativeOp& NativeOp::vmap(void (*rule)(BatchCall& call)) {
  record_->batch_rule = rule;
  return *this;
}
NativeOp& NativeOp::autocast(AutocastPolicy policy) { return autocast({policy, policy}); }
NativeOp& NativeOp::autocast(AutocastPolicies policies) {
  record_->autocast = policies;
  return *this;
}
NativeOp& NativeOp::inplace() {
  record_->inplace = true;
  return *this;
}
NativeOp& NativeOp::no_method() {
  record_->method = false;
  return *this;
}
NativeOp& NativeOp::doc(const char* text) {
  record_->doc = text;
  return *this;
}
NativeOp& NativeOp::argument(const char* name, const char* text) {
  if (record_->schema.find(name) < 0)
    fail(record_->name(), ": a text is declared of '", name, "', which is no argument");
  record_->texts.push_back({name, text});
  return *this;
}
NativeOp& NativeOp::example(const char* text) {
  record_->example = text;
  return *this;
}
NativeOp& NativeOp::sample(const char* arguments) {
  record_->samples.emplace_back(arguments);
  return *this;
}

// --- what is wrong with it -----------------------------------------------------------------------

namespace {

bool is_named(const OpSchema::Argument& argument, std::string_view type) {
  return argument.type->name == type;
}

// Throws unless the parameters of a function are the arguments, and then `results` tensors.
void check_parameters(const NativeRecord& r, const char* what,
                      const std::vector<const char*>& parameters, size_t results) {
  const std::vector<OpSchema::Argument>& arguments = r.schema.arguments;
  check(parameters.size() == arguments.size() + results, r.name(), ": its ", what, " takes ",
        parameters.size(), " parameters, expected ", arguments.size(), " arguments",
        results > 0 ? text(" and ", results, results == 1 ? " result" : " results") : "");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string_view wanted = i < arguments.size() ? arguments[i].type->cpp : "Tensor";
    const std::string& name =
        i < arguments.size() ? arguments[i].name : r.schema.results[i - arguments.size()].name;
    check(wanted == parameters[i], r.name(), ": parameter ", i + 1, " of its ", what, " ('", name,
          "') is ", parameters[i], ", expected ", wanted);
  }
}

void check_pointwise(NativeRecord& r) {
  const std::vector<OpSchema::Argument>& arguments = r.schema.arguments;
  int inputs = 0, numbers = 0;
  for (const OpSchema::Argument& each : arguments) {
    const bool tensor = is_named(each, "Tensor") || is_named(each, "Operand");
    const bool number = is_named(each, "float") || is_named(each, "Scalar") ||
                        is_named(each, "int") || is_named(each, "bool");
    check(tensor || number, r.name(), ": a pointwise op takes tensors and then numbers, not '",
          each.type->name, " ", each.name, "'");
    check(number || numbers == 0, r.name(), ": '", each.name,
          "' follows numbers; a pointwise op "
          "takes its tensors first");
    (tensor ? inputs : numbers) += 1;
  }
  check(inputs >= 1 && inputs <= kMaxPointwiseInputs, r.name(), ": a pointwise op takes 1 to ",
        kMaxPointwiseInputs, " tensors, got ", inputs);
  check(r.schema.results.size() == 1 && !r.schema.results[0].list, r.name(),
        ": a pointwise op gives one tensor");
  const auto form = std::find_if(
      r.pointwise_forms.begin(), r.pointwise_forms.end(),
      [&](const detail::NativePointwise& f) { return f.inputs == inputs && f.numbers == numbers; });
  check(form != r.pointwise_forms.end(), r.name(), ": its functor does not take ", inputs,
        inputs == 1 ? " element and " : " elements and ", numbers,
        numbers == 1 ? " number" : " numbers");
  r.pointwise = *form;
  if (!r.dtypes_given) r.dtypes = r.pointwise.dtypes;
  check((r.dtypes & ~r.pointwise.dtypes) == 0, r.name(), ": it is declared for ", names(r.dtypes),
        ", its functor for ", names(r.pointwise.dtypes));
}

// Which of the ways to compute was declared.
void check_kind(NativeRecord& r) {
  const bool pointwise = !r.pointwise_forms.empty(), kernels = !r.kernels.empty();
  const bool body = static_cast<bool>(r.body.call);
  check(int{pointwise} + int{kernels} + int{body} == 1, r.name(),
        ": expected one of pointwise, kernel and composite");
  const std::vector<OpSchema::Argument>& arguments = r.schema.arguments;
  const bool writes = !arguments.empty() && arguments[0].written;
  for (size_t i = 1; i < arguments.size(); ++i)
    check(!arguments[i].written, r.name(), ": '", arguments[i].name,
          "' is written; an op that is declared in C++ writes to its first argument alone");
  check(!writes || (kernels && r.schema.results.size() == 1), r.name(),
        ": what writes to its first argument has a kernel, and one result, which that is");
  if (writes) r.kind = OpKind::Update;
  if (body) r.kind = r.has_gradient() ? OpKind::Structured : OpKind::Composite;
  if (pointwise) check_pointwise(r);
  if (!r.dtypes_given && !pointwise) r.dtypes = dtypes::all;
  check(r.launches.empty() || pointwise, r.name(), ": pointwise_on needs pointwise");
  for (const NativeRecord::Kernel& each : r.kernels)
    check_parameters(r, "kernel", each.function.parameters,
                     r.is_update() ? 0 : r.schema.results.size());
  if (body) check_parameters(r, "composite", r.body.parameters, 0);
  if (!r.shape.call) {
    check(!kernels || r.is_update() || r.schema.results.size() == 1, r.name(),
          ": has several results and no shape function that says what they look like");
    return;
  }
  check(kernels, r.name(), ": a shape function belongs to kernel");
  check_parameters(r, "shape function", r.shape.parameters, 0);
}

void check_lists(const NativeRecord& r) {
  for (const OpSchema::Result& each : r.schema.results)
    check(!each.list, r.name(), ": an op that is declared in C++ gives tensors, no list of them");
}

bool holds_tensors(const OpSchema::Argument& argument) { return argument.type->tensor; }

void check_derivative(const NativeRecord& r) {
  check(r.gradients.size() <= static_cast<size_t>(kMaxGradients), r.name(), ": has ",
        r.gradients.size(), " gradients, at most ", kMaxGradients,
        " can be declared; gradients({...}) gives several at once");
  std::vector<bool> known(r.schema.arguments.size());
  for (const NativeRecord::Gradient& each : r.gradients) {
    for (const int at : each.arguments) {
      const OpSchema::Argument& argument = r.schema.arguments[static_cast<size_t>(at)];
      check(holds_tensors(argument), r.name(), ": '", argument.name,
            "' has a gradient and is no tensor");
      check(!known[static_cast<size_t>(at)], r.name(), ": two gradients of '", argument.name,
            "' are declared");
      known[static_cast<size_t>(at)] = true;
      const bool list = is_named(argument, "Tensor[]");
      check(!list || at == each.arguments.back(), r.name(), ": the list '", argument.name,
            "' is the last of the arguments of its gradient");
    }
  }
  bool after_list = false;
  for (size_t i = 0; i < known.size(); ++i) {
    check(!known[i] || !after_list, r.name(), ": '", r.schema.arguments[i].name,
          "' has a gradient and follows a list that has one");
    after_list = after_list || (known[i] && is_named(r.schema.arguments[i], "Tensor[]"));
  }
  for (const std::string& name : r.saved) {
    const int at = r.schema.find(name);
    const bool result = std::any_of(r.schema.results.begin(), r.schema.results.end(),
                                    [&](const OpSchema::Result& y) { return y.name == name; });
    check(result || (at >= 0 && holds_tensors(r.schema.arguments[static_cast<size_t>(at)])),
          r.name(), ": saves '", name, "', which is no tensor of its schema");
  }
  check(!r.is_composite() || (!r.jvp && !r.linear && !r.batch_rule), r.name(),
        ": is made of others, and takes tangents and batches as these do");
  check(!r.jvp || r.has_gradient(), r.name(), ": has a jvp and no gradient");
  check(!r.linear || r.has_gradient(), r.name(), ": is linear and has no gradient");
}

// --- its descriptions ----------------------------------------------------------------------------

// "SnakeBackward" of "mylib::snake".
std::string node_name_of(std::string_view name) {
  std::string out;
  bool upper = true;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
      continue;
    }
    out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return out + "Backward";
}

uint32_t slots_named(const NativeRecord& r, const std::vector<std::string>& wanted) {
  uint32_t out = 0;
  const auto has = [&](const std::string& name) {
    return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  const size_t inputs = r.tensors.size();
  for (size_t i = 0; i < inputs; ++i)
    if (has(r.schema.arguments[static_cast<size_t>(r.tensors[i])].name)) out |= 1u << i;
  for (size_t i = 0; i < r.schema.results.size(); ++i)
    if (has(r.schema.results[i].name)) out |= 1u << (inputs + i);
  return out;
}

void make_formula(NativeRecord& r) {
  for (size_t i = 0; i < r.schema.arguments.size(); ++i)
    if (holds_tensors(r.schema.arguments[i])) r.tensors.push_back(static_cast<int>(i));
  check(r.tensors.size() + r.schema.results.size() <= 31, r.name(), ": has too many tensors");
  for (const int at : r.tensors) {
    const OpSchema::Argument& each = r.schema.arguments[static_cast<size_t>(at)];
    r.slots += each.name + (is_named(each, "Tensor[]") ? "[]," : ",");
  }
  for (const OpSchema::Result& each : r.schema.results) r.slots += each.name + ",";
  r.slots.pop_back();
  r.node_name = node_name_of(r.schema.short_name());
  Formula& f = r.formula;
  f.node = r.node_name.c_str();
  f.inputs = static_cast<int>(r.tensors.size());
  f.slots = r.slots.c_str();
  for (size_t i = 0; i < r.tensors.size(); ++i)
    for (const NativeRecord::Gradient& gradient : r.gradients)
      for (const int at : gradient.arguments)
        if (at == r.tensors[i]) f.differentiable |= 1u << i, ++f.edges;
  const uint32_t results = (1u << r.schema.results.size()) - 1;
  f.tracked = results & ~(slots_named(r, r.without_gradient) >> r.tensors.size());
  const uint32_t uses = slots_named(r, r.saved);
  for (size_t k = 0; k < r.gradients.size(); ++k) {
    f.gradients[k].uses = uses;
    uint32_t bit = 1;
    for (size_t i = 0; i < r.tensors.size(); ++i) {
      if (!(f.differentiable >> i & 1u)) continue;
      const std::vector<int>& targets = r.gradients[k].arguments;
      if (std::find(targets.begin(), targets.end(), r.tensors[i]) != targets.end())
        f.gradients[k].targets |= bit;
      bit <<= 1;
    }
  }
}

void make_row(NativeRecord& r) {
  for (const OpSchema::Argument& each : r.schema.arguments)
    r.arguments.push_back({each.name.c_str(), each.type->name,
                           each.default_text.empty() ? nullptr : each.default_text.c_str(),
                           each.written});
  NativeRow& row = r.row;
  row.record = &r;
  row.name = r.name();
  row.schema = r.schema.text.c_str();
  row.family = kNativeFamily;
  row.kind = r.kind;
  row.dtypes = r.dtypes;
  row.differentiable = r.has_gradient() || r.is_composite();
  row.autocast = r.autocast;
  row.arguments = r.arguments.data();
  row.argument_count = static_cast<int>(r.arguments.size());
  row.result_count = static_cast<int>(r.schema.results.size());
  row.own_derivative = r.has_gradient();
  row.linear = r.linear;
  row.batch_rule = r.batch_rule;
  if (!row.batch_rule && r.kind == OpKind::Pointwise) row.batch_rule = &batching::pointwise;
}

void make_forms(NativeRecord& r, const NativeEntries& entries) {
  r.inplace_name = r.schema.name + "_";
  r.out_name = r.schema.name + "_out";
  r.plain_op = {r.name(), &r.row, OpInfo::Form::Plain, entries.plain,
                r.is_composite() ? entries.body : nullptr};
  r.inplace_op = {r.inplace_name.c_str(), &r.row, OpInfo::Form::InPlace, entries.inplace, nullptr};
  r.out_op = {r.out_name.c_str(), &r.row, OpInfo::Form::Out, entries.out, nullptr};
  PointwiseOp& pointwise = r.pointwise_op;
  pointwise.name = r.name();
  pointwise.inplace_name = r.inplace_name.c_str();
  pointwise.dtypes = r.dtypes;
  pointwise.family = pointwise.index = -1;
  RawOp& raw = r.raw;
  raw.name = r.name();
  raw.schema = r.schema.text.c_str();
  // Programs know the functors of pointwise ops of the table, and treat others as any op.
  raw.kind = r.kind == OpKind::Pointwise ? OpKind::Structured : r.kind;
  raw.checks = r.kind != OpKind::Pointwise;
  raw.plain = entries.raw;
  raw.out = r.has_raw_out() ? entries.raw_out : nullptr;
  raw.inplace = r.is_update() ? entries.raw_inplace : nullptr;
  for (const int at : r.tensors) raw.tensors |= 1u << at;
}

}  // namespace

const OpInfo& op_named(std::string_view name) {
  const OpInfo* op = find_op(name);
  if (!op) fail("call_op: there is no op '", std::string(name), "'");
  return *op;
}

const OpInfo& NativeOp::add(const void* owner) {
  static std::mutex adding;
  const std::lock_guard lock(adding);
  if (const NativeRecord* known = *entries_.record; known && owner && known->owner == owner)
    return known->plain_op;
  check(record_ != nullptr, "native_op: '", std::string(entries_.schema), "' was added already");
  NativeRecord& r = *record_;
  check(r.schema.arguments.size() <= 20, r.name(), ": has more than 20 arguments");
  check_kind(r);
  check_lists(r);
  check_derivative(r);
  r.owner = owner;
  make_formula(r);
  make_row(r);
  make_forms(r, entries_);
  const auto inplace_fits = [&] {
    const std::vector<OpSchema::Argument>& all = r.schema.arguments;
    return !all.empty() && is_named(all[0], "Tensor") && r.schema.results.size() == 1;
  };
  check(!r.inplace || inplace_fits(), r.name(),
        ": the in-place form is of ops with a tensor first and one result");
  std::vector<const OpInfo*> forms{&r.plain_op, &r.out_op};
  if (r.has_inplace()) forms.push_back(&r.inplace_op);
  for (const OpInfo* form : forms)
    if (find_op(form->name)) fail("native_op: there is an op named '", form->name, "' already");
  *entries_.record = record_.get();
  for (const OpInfo* form : forms) register_op(*form);
  if (!r.is_composite()) register_raw_op(r.raw);
  return record_.release()->plain_op;
}

}  // namespace moonlet
