// interp/embed/class_text.cpp: what help says of a class of the host, and its annotations for
// editors (LuaLS).
#include <string>

#include "interp/embed/class_record.h"
#include "interp/embed/session.h"

namespace moonlet {

namespace detail {

namespace {

std::string bases_of(const ClassRecord& record) {
  std::string text;
  for (const ClassRecord* base : record.bases) text += (text.empty() ? "" : ", ") + base->name;
  return text;
}

void add_functions(std::string& text, const FunctionSet& set, const std::string& before) {
  for (const Overload& each : set.overloads)
    text += "  " + before + describe(set, each, true) + "\n";
  if (!set.text.empty()) text += "      " + set.text + "\n";
}

std::string last_name(const FunctionSet& set) { return set.name.substr(set.name.rfind('.') + 1); }

}  // namespace

std::string help_text(const ClassRecord& record) {
  std::string text = "class " + record.name;
  if (!record.bases.empty()) text += ", a kind of " + bases_of(record);
  text += "\n";
  if (!record.text.empty()) text += "\n  " + record.text + "\n";
  const struct {
    MemberKind kind;
    const char* title;
    std::string before;
  } parts[] = {{MemberKind::Constructor, "Made by", ""},
               {MemberKind::Method, "Methods", ":"},
               {MemberKind::Static, "Functions", record.name + "."}};
  for (const auto& part : parts) {
    bool any = false;
    for (const Member& each : record.members) {
      if (each.kind != part.kind) continue;
      if (!any) text += std::string("\n") + part.title + "\n";
      any = true;
      add_functions(text, *each.set, part.before);
    }
  }
  if (!record.properties.empty()) text += "\nProperties\n";
  for (const auto& each : record.properties) {
    text += "  " + last_name(each->get) + ": " + property_type(*each);
    text += each->set.overloads.empty() ? ", read only\n" : "\n";
    if (!each->get.text.empty()) text += "      " + each->get.text + "\n";
  }
  return text;
}

std::string property_type(const Property& property) {
  const TypeInfo* type = property.get.overloads[0].form->result;
  return type != nullptr ? type->name() : "any";
}

// --- annotations ---------------------------------------------------------------------------------

namespace {

// A type as LuaLS writes it.
std::string editor_type(std::string name) {
  const auto replace = [&name](std::string_view from, std::string_view to) {
    for (size_t at = name.find(from); at != name.npos; at = name.find(from, at + to.size()))
      name = name.substr(0, at).append(to) + name.substr(at + from.size());
  };
  for (const char* sign : {"uint", "int"})
    for (const char* bits : {"8", "16", "32", "64"}) replace(std::string(sign) + bits, "integer");
  replace(" or ", "|");
  replace(", ", "|");
  if (name.rfind("list of ", 0) == 0 || name.rfind("table of ", 0) == 0) return "table";
  replace("Tensor", "moonlet.Tensor");
  if (name.find(' ') != name.npos) return "any";
  return name;
}

std::string parameter_name(const Overload& overload, int position, int skipped) {
  const auto named = static_cast<size_t>(position - skipped);
  return named < overload.names.size() ? overload.names[named] : text("a", position - skipped + 1);
}

// "fun(pitch: integer): number", for further overloads.
std::string overload_text(const Overload& overload, int skipped, const std::string& self) {
  const Form& form = *overload.form;
  std::string text = "fun(" + self;
  for (int i = skipped; i < form.count; ++i) {
    if (text.back() != '(') text += ", ";
    if (form.rest && i + 1 == form.count) {
      text += "...";
      break;
    }
    text += parameter_name(overload, i, skipped) + ": " + editor_type(form.parameters[i]->name());
  }
  text += ")";
  if (form.result != nullptr) text += ": " + editor_type(form.result->name());
  return text;
}

void add_function_stub(std::string& text, const ClassRecord& record, const Member& member) {
  const FunctionSet& set = *member.set;
  const bool method = member.kind == MemberKind::Method;
  const Overload& overload = set.overloads[0];
  const Form& form = *overload.form;
  const int skipped = method && overload.takes_self ? 1 : 0;
  if (!set.text.empty()) text += "--- " + set.text + "\n";
  std::string names;
  for (int i = skipped; i < form.count; ++i) {
    if (!names.empty()) names += ", ";
    if (form.rest && i + 1 == form.count) {
      names += "...";
      break;
    }
    const std::string name = parameter_name(overload, i, skipped);
    const bool optional =
        i >= form.required || static_cast<size_t>(form.count - i) <= overload.defaults.size();
    names += name;
    text += "---@param " + name + (optional ? "? " : " ") +
            editor_type(form.parameters[i]->name()) + "\n";
  }
  if (form.result != nullptr) text += "---@return " + editor_type(form.result->name()) + "\n";
  for (size_t i = 1; i < set.overloads.size(); ++i) {
    const Overload& further = set.overloads[i];
    text += "---@overload " +
            overload_text(further, method && further.takes_self ? 1 : 0,
                          method ? "self: " + record.name : "") +
            "\n";
  }
  text +=
      "function " + record.name + (method ? ":" : ".") + member.name + "(" + names + ") end\n\n";
}

}  // namespace

std::string stub_text(const ClassRecord& record) {
  std::string text;
  if (!record.text.empty()) text += "--- " + record.text + "\n";
  text += "---@class " + record.name;
  if (!record.bases.empty()) text += ": " + bases_of(record);
  text += "\n";
  for (const auto& each : record.properties) {
    text += "---@field " + last_name(each->get) + " " + editor_type(property_type(*each));
    text += each->get.text.empty() ? "\n" : " " + each->get.text + "\n";
  }
  if (record.constructors != nullptr)
    for (const Overload& each : record.constructors->overloads)
      text += "---@overload " + overload_text(each, 0, "") + "\n";
  text += record.name + " = {}\n\n";
  for (const Member& each : record.members)
    if (each.kind == MemberKind::Method || each.kind == MemberKind::Static ||
        each.kind == MemberKind::Constructor)
      add_function_stub(text, record, each);
  return text;
}

}  // namespace detail

std::string class_stubs(Interpreter& interpreter) {
  std::string text = "---@meta\n\n";
  for (const auto& each : detail::classes_of(detail::Access::session(interpreter)).records)
    text += detail::stub_text(*each);
  return text;
}

}  // namespace moonlet
