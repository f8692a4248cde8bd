-- autograd/gen/emit_tape.lua: the public ops of namespace moonlet: each wraps its dims, runs the op
-- without the tape, and records a node when an input requires grad. `emit_tape` gives the header;
-- `emit_tape:FAMILY` the nodes and functions of a family.

local cpptext = require "cpptext"

-- The arguments a gradient is named for, in order.
local function differentiable(row)
  local named, out = {}, {}
  for _, grad in ipairs(row.grads) do
    for _, name in ipairs(grad.args) do named[name] = true end
  end
  for _, arg in ipairs(row.args) do
    if named[arg.name] then out[#out + 1] = arg end
  end
  return out
end

-- The results that can carry a gradient: {result, position}.
local function differentiable_results(row)
  local out = {}
  for i, result in ipairs(row.results) do
    if result.type == "Tensor" and not row.nodiff_set[result.name] then
      out[#out + 1] = { name = result.name, position = i - 1 }
    end
  end
  return out
end

-- The identifiers of an expression, without member names, qualified names and strings.
local function identifiers(expression)
  local out = {}
  local bare = expression:gsub('"[^"]*"', '""'):gsub("[%.:]%s*[%a_][%w_]*", "")
  for word in bare:gmatch "[%a_][%w_]*" do out[word] = true end
  return out
end

local geometry = {
  sizes_of = { field = "Dims", suffix = "sizes", from = ".sizes()" },
  options_of_ = { field = "Options", suffix = "options", from = ".options()" },
  dtype_of_ = { field = "DType", suffix = "dtype", from = ".dtype()" },
}

-- What a row's formulas use: the expressions with geometry calls replaced, the arguments and
-- results to save, and the geometry fields.
local function analyse(row)
  local plan = { expressions = {}, args = {}, results = {}, geometry = {} }
  local used, seen = {}, {}
  for i, grad in ipairs(row.grads) do
    local expression = grad.expression == "zero" and "zeros_like(g)" or grad.expression
    for call, info in pairs(geometry) do
      expression = expression:gsub("%f[%w_]" .. call .. "%(([%w_]+)%)", function(name)
        if not row.arg[name] then return nil end
        local field = name .. "_" .. info.suffix
        if not seen[field] then
          seen[field] = true
          plan.geometry[#plan.geometry + 1] = { field = field, info = info, arg = row.arg[name] }
        end
        return field
      end)
    end
    plan.expressions[i] = expression
    for word in pairs(identifiers(expression)) do used[word] = true end
  end
  table.sort(plan.geometry, function(a, b) return a.field < b.field end)
  for _, arg in ipairs(row.args) do
    if used[arg.name] then plan.args[#plan.args + 1] = arg end
  end
  for i, result in ipairs(row.results) do
    if used[result.name] and not row.arg[result.name] then
      plan.results[#plan.results + 1] = { name = result.name, position = i - 1 }
    end
  end
  plan.uses_needs = used.needs
  plan.used = used
  return plan
end

local function unpack_lines(plan)
  local lines = {}
  for _, arg in ipairs(plan.args) do
    local n = arg.name
    if arg.info.operand then
      lines[#lines + 1] = ("    const Operand %s = %s_.unpack(*this);"):format(n, n)
    elseif arg.info.list then
      lines[#lines + 1] = ("    const std::vector<Tensor> %s = unpack_list(%s_, *this);"):format(n, n)
    elseif arg.info.tensor then
      lines[#lines + 1] = ("    const Tensor %s = %s_.unpack(*this);"):format(n, n)
    else
      lines[#lines + 1] = ("    const auto& %s = %s_;"):format(n, n)
    end
  end
  for _, result in ipairs(plan.results) do
    lines[#lines + 1] = ("    const Tensor %s = %s_.unpack(*this);"):format(result.name, result.name)
  end
  return lines
end

local function apply_body(row, plan, diff, diff_results)
  local lines = unpack_lines(plan)
  local position = {}
  for i, arg in ipairs(diff) do position[arg.name] = i - 1 end
  if #diff_results == 1 then
    lines[#lines + 1] = "    [[maybe_unused]] const Tensor& g = grads[0];"
    local alias = "g_" .. diff_results[1].name
    if plan.used[alias] then lines[#lines + 1] = ("    const Tensor& %s = g;"):format(alias) end
  else
    for i, result in ipairs(diff_results) do
      if plan.used["g_" .. result.name] then
        lines[#lines + 1] = ("    const Tensor g_%s = gradient_or_zeros(grads, %d);"):format(result.name, i - 1)
      end
    end
  end
  if plan.uses_needs then
    local needs = {}
    for i = 1, #diff do needs[i] = ("this->needs(%d)"):format(i - 1) end
    lines[#lines + 1] = ("    const std::array<bool, %d> needs = {%s};"):format(#diff, table.concat(needs, ", "))
  end
  for i, grad in ipairs(row.grads) do
    local expression = plan.expressions[i]
    if #grad.args > 1 then
      local outs, conditions = {}, {}
      for j, name in ipairs(grad.args) do
        outs[j] = ("out[%d]"):format(position[name])
        conditions[j] = ("this->needs(%d)"):format(position[name])
      end
      lines[#lines + 1] = ("    if (%s) std::tie(%s) = %s;"):format(table.concat(conditions, " || "),
        table.concat(outs, ", "), expression)
    elseif row.arg[grad.args[1]].info.list then
      lines[#lines + 1] = ("    assign_list(out, %s);"):format(expression)
    else
      local at = position[grad.args[1]]
      lines[#lines + 1] = ("    if (this->needs(%d)) out[%d] = %s;"):format(at, at, expression)
    end
  end
  return lines
end

local function node_class(row, plan, diff, diff_results)
  local out = {
    ("class %sNode final : public Node {"):format(row.camel), " public:",
    ('  const char* name() const override { return "%sBackward"; }'):format(row.camel),
    "  void apply([[maybe_unused]] const Tensor* grads, Tensor* out) override {",
    "    using namespace formulas;",
  }
  for _, line in ipairs(apply_body(row, plan, diff, diff_results)) do out[#out + 1] = line end
  out[#out + 1] = "  }"
  local fields, releases = {}, {}
  for _, arg in ipairs(plan.args) do
    fields[#fields + 1] = ("  %s %s_;"):format(arg.info.field, arg.name)
    if arg.info.list then
      releases[#releases + 1] = ("    for (Saved& saved : %s_) saved.release();"):format(arg.name)
    elseif arg.info.tensor then
      releases[#releases + 1] = ("    %s_.release();"):format(arg.name)
    end
  end
  for _, result in ipairs(plan.results) do
    fields[#fields + 1] = ("  Saved %s_;"):format(result.name)
    releases[#releases + 1] = ("    %s_.release();"):format(result.name)
  end
  for _, item in ipairs(plan.geometry) do
    local field = item.arg.info.list and ("std::vector<%s>"):format(item.info.field) or item.info.field
    fields[#fields + 1] = ("  %s %s;"):format(field, item.field)
  end
  out[#out + 1] = "  void release_saved() override {"
  for _, line in ipairs(releases) do out[#out + 1] = line end
  out[#out + 1] = "  }"
  for _, line in ipairs(fields) do out[#out + 1] = line end
  out[#out + 1] = "};\n"
  return table.concat(out, "\n")
end

-- "Tensor" arguments by reference and the rest by value, for the function that fills the node.
local function record_function(row, plan, diff, diff_results)
  local params = { "const bool inplace" }
  for _, arg in ipairs(row.args) do params[#params + 1] = arg.info.cpp .. " " .. arg.name end
  local out = {
    ("// Makes the node of one call, with everything it must keep but the results."),
    ("[[gnu::noinline]] std::pair<NodeRef, %sNode*> prepare_%s(%s) {"):format(row.camel, row.name,
      "[[maybe_unused]] " .. table.concat(params, ", [[maybe_unused]] ")),
    ("  auto made = make_node<%sNode>();"):format(row.camel),
    ("  %sNode& node = *made.second;"):format(row.camel),
  }
  out[#out + 1] = ("  node.edges.reserve(%d);"):format(#diff)
  for _, arg in ipairs(diff) do out[#out + 1] = ("  add_edge(node, %s);"):format(arg.name) end
  for _, arg in ipairs(plan.args) do
    local n = arg.name
    local first = arg == row.args[1] and row.inplace_form
    if arg.info.list then
      out[#out + 1] = ("  save_list(node.%s_, %s);"):format(n, n)
    elseif arg.info.tensor and first then
      local t = arg.info.operand and n .. ".tensor()" or n
      out[#out + 1] = ("  if (inplace) node.%s_.save_clone(%s);\n  else node.%s_.save(%s);"):format(n, t, n, n)
    elseif arg.info.tensor and row.inplace_form then
      local x = row.args[1].name
      local target = row.args[1].info.operand and x .. ".tensor()" or x
      out[#out + 1] = ("  save_beside(node.%s_, %s, inplace, %s);"):format(n, n, target)
    elseif arg.info.tensor then
      out[#out + 1] = ("  node.%s_.save(%s);"):format(n, n)
    else
      out[#out + 1] = ("  node.%s_ = %s;"):format(n, n)
    end
  end
  for _, item in ipairs(plan.geometry) do
    local n = item.arg.name
    if item.arg.info.list then
      out[#out + 1] = ("  for (const Tensor& t : %s) node.%s.push_back(t%s);"):format(n, item.field, item.info.from)
    elseif item.info.suffix == "options" then
      out[#out + 1] = ("  node.%s = options_of(%s);"):format(item.field, item.arg.info.operand and n .. ".tensor()" or n)
    elseif item.arg.info.operand then
      out[#out + 1] = ("  if (%s.is_tensor()) node.%s = %s.tensor()%s;"):format(n, item.field, n, item.info.from)
    else
      out[#out + 1] = ("  node.%s = %s%s;"):format(item.field, n, item.info.from)
    end
  end
  if #diff_results > 1 then
    out[#out + 1] = ("  node.output_count = %d;"):format(#diff_results)
  end
  out[#out + 1] = "  return made;\n}\n"
  return table.concat(out, "\n")
end

local function recording_condition(diff)
  local parts = {}
  for i, arg in ipairs(diff) do parts[i] = ("requires_grad(%s)"):format(arg.name) end
  return ("grad_enabled() && (%s)"):format(table.concat(parts, " || "))
end

-- Where result i of the op is found after the call.
local function result_access(row, i)
  if #row.results == 1 then return "result_" end
  return ("std::get<%d>(result_)"):format(i)
end

local function finish_recording(row, plan, diff_results)
  local lines = {}
  for i, result in ipairs(diff_results) do
    local access = result_access(row, result.position)
    if #diff_results > 1 then lines[#lines + 1] = ("    node->outputs.emplace_back(%s);"):format(access) end
    lines[#lines + 1] = ("    set_history(%s, ref, %d);"):format(access, i - 1)
  end
  for _, result in ipairs(plan.results) do
    local output
    for i, candidate in ipairs(diff_results) do
      if candidate.name == result.name then output = i - 1 end
    end
    local access = result_access(row, result.position)
    lines[#lines + 1] = output
      and ("    node->%s_.save_output(%s, %d);"):format(result.name, access, output)
      or ("    node->%s_.save(%s);"):format(result.name, access)
  end
  return lines
end

local function call_arguments(row, renamed)
  local out = {}
  for i, arg in ipairs(row.args) do out[i] = renamed[arg.name] or arg.name end
  return table.concat(out, ", ")
end

local function append(out, lines, indent)
  for _, line in ipairs(lines) do out[#out + 1] = (indent or "") .. line end
end

-- The tape records no change of a written argument besides the first of an update.
local function written_checks(row, op)
  local lines = {}
  for _, arg in ipairs(cpptext.written(row, row.kind == "update" and row.args[1] or nil)) do
    lines[#lines + 1] = ('  if (requires_grad(%s)) check_inplace_without_derivative(%s, "%s: %s");'):format(
      arg.name, arg.name, op, arg.name)
  end
  return lines
end

local function plain_function(row, plan, diff, diff_results)
  local wraps, renamed = cpptext.wrap_dims(row)
  local arguments = call_arguments(row, renamed)
  local out = { ("%s %s(%s) {"):format(cpptext.result(row), row.name, cpptext.parameters(row)) }
  append(out, wraps, "  ")
  append(out, written_checks(row, row.name))
  local namespace = row.kind == "view" and "views" or "raw"
  out[#out + 1] = ("  %s result_ = %s::%s(%s);"):format(cpptext.result(row), namespace, row.name, arguments)
  if row.kind == "view" then
    out[#out + 1] = ("  register_view(result_, %s);"):format(row.args[1].name)
  end
  if #diff > 0 then
    out[#out + 1] = ("  if (%s%s) {"):format(recording_condition(diff),
      #diff_results == 1 and (" && is_differentiable(%s.dtype())"):format(
        result_access(row, diff_results[1].position)) or "")
    out[#out + 1] = ("    auto [ref, node] = prepare_%s(false, %s);"):format(row.name, arguments)
    append(out, finish_recording(row, plan, diff_results))
    if #plan.results == 0 and #diff_results == 1 then out[#out + 1] = "    static_cast<void>(node);" end
    out[#out + 1] = "  }"
  end
  out[#out + 1] = "  return result_;\n}\n"
  return table.concat(out, "\n")
end

local function inplace_function(row, plan, diff)
  local wraps, renamed = cpptext.wrap_dims(row)
  local arguments = call_arguments(row, renamed)
  local x = row.args[1].name
  local out = { ("Tensor& %s_(%s) {"):format(row.name, cpptext.parameters(row, { inplace = true })) }
  append(out, wraps, "  ")
  append(out, written_checks(row, row.name .. "_"))
  if #diff == 0 or diff[1] ~= row.args[1] then
    out[#out + 1] = ('  check_inplace_without_derivative(%s, "%s_");'):format(x, row.name)
    out[#out + 1] = ("  return raw::%s_(%s);\n}\n"):format(row.name, arguments)
    return table.concat(out, "\n")
  end
  out[#out + 1] = ("  const bool record = %s && is_differentiable(%s.dtype());"):format(recording_condition(diff), x)
  out[#out + 1] = ("  if (!record) return raw::%s_(%s);"):format(row.name, arguments)
  out[#out + 1] = ('  check_inplace(%s, "%s_");'):format(x, row.name)
  out[#out + 1] = ("  auto [ref, node] = prepare_%s(true, %s);"):format(row.name, arguments)
  out[#out + 1] = ("  raw::%s_(%s);"):format(row.name, arguments)
  out[#out + 1] = ("  rebase_history(%s, ref);"):format(x)
  for _, result in ipairs(plan.results) do
    out[#out + 1] = ("  node->%s_.save_output(%s, 0);"):format(result.name, x)
  end
  if #plan.results == 0 then out[#out + 1] = "  static_cast<void>(node);" end
  out[#out + 1] = ("  return %s;\n}\n"):format(x)
  return table.concat(out, "\n")
end

local function out_function(row)
  local wraps, renamed = cpptext.wrap_dims(row)
  local conditions = { "requires_grad(out)" }
  for _, arg in ipairs(row.args) do
    if arg.info.tensor then conditions[#conditions + 1] = ("requires_grad(%s)"):format(arg.name) end
  end
  local out = { ("Tensor& %s_out(%s) {"):format(row.name, cpptext.parameters(row, { out = true })) }
  append(out, wraps, "  ")
  out[#out + 1] = ("  if (grad_enabled() && (%s)) no_out_gradient(\"%s\");"):format(
    table.concat(conditions, " || "), row.name)
  out[#out + 1] = ("  return raw::%s_out(out, %s);\n}\n"):format(row.name, call_arguments(row, renamed))
  return table.concat(out, "\n")
end

local function define(row)
  if row.kind == "composite" then return "" end
  local diff, diff_results = differentiable(row), differentiable_results(row)
  local plan = analyse(row)
  local out = {}
  if #diff > 0 then
    out[#out + 1] = "namespace {\n" .. node_class(row, plan, diff, diff_results)
      .. record_function(row, plan, diff, diff_results) .. "}  // namespace\n"
  end
  if row.plain_form then out[#out + 1] = plain_function(row, plan, diff, diff_results) end
  if row.inplace_form then out[#out + 1] = inplace_function(row, plan, diff) end
  if row.out_form then out[#out + 1] = out_function(row) end
  return table.concat(out, "\n")
end

local function header(rows)
  local out = {
    "// autograd/ops.h: generated from tensor/ops/*.lua. Every op, recording itself on the tape when",
    "// grad mode is on and an input requires grad. Dims are 0-based and may count from the end.",
    "#pragma once", "",
    "#include <optional>", "#include <string_view>", "#include <tuple>", "#include <vector>", "",
    '#include "tensor/operand.h"', '#include "tensor/tensor.h"', "", "namespace moonlet {", "",
    "class Generator;", "",
  }
  for _, row in ipairs(rows) do
    local options = { defaults = true }
    if row.plain_form then
      out[#out + 1] = ("%s %s(%s);"):format(cpptext.result(row), row.name, cpptext.parameters(row, options))
    end
    if row.kind ~= "composite" and row.kind ~= "view" then
      if row.inplace_form then
        out[#out + 1] = ("Tensor& %s_(%s);"):format(row.name, cpptext.parameters(row, { inplace = true, defaults = true }))
      end
      if row.out_form then
        out[#out + 1] = ("Tensor& %s_out(%s);"):format(row.name, cpptext.parameters(row, { out = true, defaults = true }))
      end
    end
  end
  out[#out + 1] = "\n}  // namespace moonlet\n"
  return table.concat(out, "\n")
end

local function definitions(rows, family)
  local out = {
    "// Generated from tensor/ops/" .. family .. ".lua: the ops with their tape nodes.",
    '#include "autograd/record.h"', '#include "tensor/dispatch.h"', "", "namespace moonlet {", "",
  }
  for _, row in ipairs(rows) do out[#out + 1] = define(row) end
  out[#out + 1] = "}  // namespace moonlet\n"
  return table.concat(out, "\n")
end

return function(rows, family)
  if family then return definitions(rows, family) end
  return header(rows)
end
