// tensor/program/schema.cpp: cuts schemas into their arguments.
#include "tensor/program/schema.h"

namespace moonlet::program {

namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Calls f with each part of a list between commas; those in brackets and quotes are no borders.
template <class F>
void each_part(std::string_view list, F&& f) {
  int depth = 0;
  bool quoted = false;
  size_t from = 0;
  for (size_t at = 0; at < list.size(); ++at) {
    const char c = list[at];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{' || c == '(') ++depth;
    if (c == ']' || c == '}' || c == ')') --depth;
    if (c != ',' || depth > 0) continue;
    f(trimmed(list.substr(from, at - from)));
    from = at + 1;
  }
  if (!trimmed(list.substr(from)).empty()) f(trimmed(list.substr(from)));
}

SchemaArgument read_argument(std::string_view part) {
  const size_t space = part.find(' ');
  SchemaArgument out{part.substr(0, space), {}};
  if (out.type.ends_with('!')) out.type.remove_suffix(1);
  const std::string_view rest = space == part.npos ? std::string_view() : part.substr(space + 1);
  out.name = trimmed(rest.substr(0, rest.find('=')));
  return out;
}

// Where the bracket that opens at `open` is closed.
size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '"') quoted = !quoted;
    if (quoted) continue;
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return at;
  }
  return text.size();
}

}  // namespace

Schema read_schema(std::string_view text) {
  Schema out;
  const size_t open = text.find('(');
  if (open == text.npos) return out;
  const size_t close = closing(text, open);
  each_part(text.substr(open + 1, close - open - 1),
            [&](std::string_view part) { out.arguments.push_back(read_argument(part)); });
  const size_t arrow = text.find("->", close);
  if (arrow == text.npos) return out;
  std::string_view results = trimmed(text.substr(arrow + 2));
  if (results.starts_with('(')) results = results.substr(1, closing(results, 0) - 1);
  each_part(results, [&](std::string_view) { ++out.results; });
  return out;
}

}  // namespace moonlet::program
