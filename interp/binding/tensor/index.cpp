// interp/binding/tensor/index.cpp: turns Lua keys into a list of index items, and those into ops.
#include "interp/binding/tensor/index.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "autograd/history.h"
#include "autograd/host_value.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/uses_index.h"
#include "tensor/core/views.h"
#include "tensor/runtime/modes.h"

namespace moonlet::binding {
namespace {

struct Item {
  enum class Kind { Position, Range, NewAxis, Ellipsis, Tensor };
  Kind kind = Kind::Range;
  std::optional<int64_t> from, to;  // 1-based, both included; from is also the position
  int64_t step = 1;
  Tensor tensor;
};

using Items = std::vector<Item>;

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

int64_t parse_integer(std::string_view part, std::string_view whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || end != part.data() + part.size() || part.empty())
    fail("index: cannot read '", part, "' in \"", whole, "\"");
  return value;
}

// "3", "2:5", ":", "1:-1:2", "...", "newaxis"
Item parse_item(std::string_view part, std::string_view whole) {
  Item item;
  if (part == "...") {
    item.kind = Item::Kind::Ellipsis;
    return item;
  }
  if (part == "newaxis") {
    item.kind = Item::Kind::NewAxis;
    return item;
  }
  if (part.find(':') == part.npos) {
    item.kind = Item::Kind::Position;
    item.from = parse_integer(part, whole);
    return item;
  }
  for (int field = 0;; ++field) {
    const size_t colon = part.find(':');
    const std::string_view text = trim(part.substr(0, colon));
    if (field > 2) fail("index: too many ':' in \"", whole, "\"");
    if (!text.empty()) {
      const int64_t value = parse_integer(text, whole);
      if (field == 0) item.from = value;
      if (field == 1) item.to = value;
      if (field == 2) item.step = value;
    }
    if (colon == part.npos) return item;
    part.remove_prefix(colon + 1);
  }
}

void parse_text(std::string_view text, Items& items) {
  std::string_view rest = text;
  for (;;) {
    const size_t comma = rest.find(',');
    items.push_back(parse_item(trim(rest.substr(0, comma)), text));
    if (comma == rest.npos) return;
    rest.remove_prefix(comma + 1);
  }
}

int64_t range_field(lua_State* L, int table, int field) {
  lua_rawgeti(L, table, field);
  const std::optional<int64_t> value = whole_number(L, -1);
  if (!value) {
    fail("index: a range is {}, {from, to} or {from, to, step} of integers, got ", type_name(L, -1),
         "; positions in a list need ml.tensor{...}");
  }
  lua_pop(L, 1);
  return *value;
}

Item read_range(lua_State* L, int table) {
  table = lua_absindex(L, table);
  Item item;
  const int64_t count = static_cast<int64_t>(lua_rawlen(L, table));
  if (count == 0) return item;
  if (count == 1 || count > 3) {
    fail("index: a range is {}, {from, to} or {from, to, step}, got ", count,
         count == 1 ? " value" : " values", "; positions in a list need ml.tensor{...}");
  }
  item.from = range_field(L, table, 1);
  item.to = range_field(L, table, 2);
  if (count == 3) item.step = range_field(L, table, 3);
  return item;
}

void read_item(lua_State* L, int index, Items& items) {
  if (const Tensor* cell = tensor_cell(L, index)) {
    check(cell->defined(), "index: the index tensor has been freed");
    Item item;
    item.kind = Item::Kind::Tensor;
    item.tensor = *cell;
    items.push_back(std::move(item));
    return;
  }
  switch (lua_type(L, index)) {
    case LUA_TNUMBER: {
      const std::optional<int64_t> value = whole_number(L, index);
      check(value.has_value(), "index: ", static_cast<double>(lua_tonumber(L, index)),
            " is no position; positions are integers");
      Item item;
      item.kind = Item::Kind::Position;
      item.from = *value;
      items.push_back(std::move(item));
      return;
    }
    case LUA_TSTRING: {
      size_t length = 0;
      const char* text = lua_tolstring(L, index, &length);
      parse_text({text, length}, items);
      return;
    }
    case LUA_TTABLE: items.push_back(read_range(L, index)); return;
    default:
      fail("index: a tensor is indexed by integers, ranges, strings and tensors, got ",
           type_name(L, index));
  }
}

bool is_number(const Item& item) {
  return item.kind == Item::Kind::Tensor && item.tensor.dim() == 0 &&
         is_integral(item.tensor.dtype()) && has_values(item.tensor);
}

// Beside index tensors with dimensions one of none is a position, as in PyTorch: as an index it
// would move the dimensions of the result.
void numbers_to_positions(Items& items) {
  const auto has_dims = [](const Item& item) {
    return item.kind == Item::Kind::Tensor && item.tensor.dim() > 0;
  };
  if (std::none_of(items.begin(), items.end(), has_dims)) return;
  for (Item& item : items) {
    if (!is_number(item)) continue;
    item.from = host_value<int64_t>(to(item.tensor, DType::Int64, std::nullopt));
    item.kind = Item::Kind::Position;
    item.tensor = Tensor();
  }
}

Items read_items(lua_State* L, int key) {
  Items items;
  if (lua_type(L, key) != LUA_TTABLE) {
    read_item(L, key, items);
    return items;
  }
  const lua_Integer count = static_cast<lua_Integer>(lua_rawlen(L, key));
  check(count <= 4 * kMaxDims, "index: too many items: ", static_cast<int64_t>(count));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, key, i);
    read_item(L, lua_gettop(L), items);
    lua_pop(L, 1);
  }
  numbers_to_positions(items);
  return items;
}

bool is_mask(const Item& item) {
  return item.kind == Item::Kind::Tensor && item.tensor.dtype() == DType::Bool;
}

int dims_taken(const Item& item) {
  if (item.kind == Item::Kind::NewAxis || item.kind == Item::Kind::Ellipsis) return 0;
  return is_mask(item) ? item.tensor.dim() : 1;
}

int64_t wrap_position(int64_t position, int64_t size, int dim, int64_t most) {
  if (position == 0) fail("index 0: positions start at 1");
  const int64_t wrapped = position < 0 ? position + size + 1 : position;
  if (wrapped < 1 || wrapped > most) {
    fail("index ", position, " is out of range for dimension ", dim + 1, " of size ", size);
  }
  return wrapped;
}

// `shown` is the dimension's position in the tensor that the script indexed.
Tensor apply_range(const Tensor& x, int dim, int shown, const Item& item) {
  const int64_t size = x.size(dim);
  if (item.step < 1) fail("index: a range's step must be positive, got ", item.step);
  if (!item.from && !item.to && item.step == 1) return x;
  const int64_t from = item.from ? wrap_position(*item.from, size, shown, size + 1) : 1;
  int64_t to = size;
  // `to` may be one before the first: {1, 0} is empty.
  if (item.to && *item.to != 0) to = wrap_position(*item.to, size, shown, size);
  if (item.to && *item.to == 0) to = 0;
  if (to < from) to = from - 1;
  return slice(x, dim, from - 1, to, item.step);
}

// A mask stands for the positions of its true elements: one index tensor per dimension of it.
void add_mask(const Tensor& x, int dim, const Tensor& mask, std::vector<Tensor>& indices) {
  for (int i = 0; i < mask.dim(); ++i) {
    if (x.size(dim + i) != mask.size(i)) {
      fail("index: a mask of shape ", mask.sizes(), " does not fit a tensor of shape ", x.sizes(),
           " at dimension ", dim + i + 1);
    }
  }
  const Tensor positions = nonzero(mask);
  for (int i = 0; i < mask.dim(); ++i) {
    indices.resize(std::max<size_t>(indices.size(), dim + i + 1));
    indices[dim + i] = select(positions, 1, i);
  }
}

// Applies the items that are views to `x`; index tensors are collected by dimension.
Tensor apply_items(const Tensor& x, const Items& items, std::vector<Tensor>& indices) {
  int taken = 0, ellipses = 0;
  for (const Item& item : items) {
    taken += dims_taken(item);
    ellipses += item.kind == Item::Kind::Ellipsis ? 1 : 0;
  }
  if (taken > x.dim()) fail("index: ", taken, " positions for a tensor of shape ", x.sizes());
  if (ellipses > 1) fail("index: only one ellipsis can be given");
  const int skipped = x.dim() - taken;
  Tensor out = x;
  int dim = 0, shown = 0;
  for (const Item& item : items) {
    const int at = shown;
    shown += item.kind == Item::Kind::Ellipsis ? skipped : dims_taken(item);
    switch (item.kind) {
      case Item::Kind::Position:
        out = select(out, dim, wrap_position(*item.from, out.size(dim), at, out.size(dim)) - 1);
        break;
      case Item::Kind::Range: out = apply_range(out, dim++, at, item); break;
      case Item::Kind::NewAxis: out = unsqueeze(out, dim++); break;
      case Item::Kind::Ellipsis: dim += skipped; break;
      case Item::Kind::Tensor:
        if (is_mask(item)) {
          check(item.tensor.dim() > 0, "index: a mask of no dimensions cannot index");
          add_mask(out, dim, item.tensor, indices);
        } else {
          check(is_integral(item.tensor.dtype()),
                "index: an index tensor holds integers or bools, got ", item.tensor.dtype());
          indices.resize(std::max<size_t>(indices.size(), dim + 1));
          indices[dim] = item.tensor.dtype() == DType::Int32 || item.tensor.dtype() == DType::Int64
                             ? item.tensor
                             : to(item.tensor, DType::Int64, std::nullopt);
        }
        dim += dims_taken(item);
    }
  }
  return out;
}

bool assign_mask(Tensor& x, const Items& items, const std::optional<Scalar>& number) {
  if (!number || items.size() != 1 || !is_mask(items[0])) return false;
  if (!(items[0].tensor.sizes() == x.sizes())) return false;
  masked_fill_(x, items[0].tensor, *number);
  return true;
}

// What is assigned to: x itself where that is all of it, so that what follows x through a change in
// position, as a retained gradient does, follows it here.
Tensor assigned_part(const Tensor& x, const Items& items, std::vector<Tensor>& indices) {
  Tensor part = apply_items(x, items, indices);
  const bool is_whole =
      part.sizes() == x.sizes() && part.strides() == x.strides() && part.offset() == x.offset();
  return is_whole ? x : part;
}

}  // namespace

bool is_index_text(std::string_view text) {
  text = trim(text);
  if (text.empty()) return false;
  const char c = text.front();
  return (c >= '0' && c <= '9') || c == '-' || c == ':' || c == '.' || text.starts_with("newaxis");
}

Tensor part_at(const Tensor& x, int64_t i) {
  check(x.dim() > 0, "index: a tensor of no dimensions cannot be indexed; use x:item()");
  return select(x, 0, wrap_position(i, x.size(0), 0, x.size(0)) - 1);
}

namespace {

// The positions when the key is one or a list of nothing else, {2, 3}, as in loops over elements.
std::optional<Dims> read_positions(lua_State* L, int key) {
  if (lua_isinteger(L, key)) return Dims{lua_tointeger(L, key)};
  if (lua_type(L, key) != LUA_TTABLE) return {};
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, key));
  if (count == 0 || count > kMaxDims) return {};
  Dims positions;
  for (lua_Integer i = 1; i <= count; ++i) {
    const bool is_position = lua_rawgeti(L, key, i) == LUA_TNUMBER && lua_isinteger(L, -1);
    if (is_position) positions.push_back(lua_tointeger(L, -1));
    lua_pop(L, 1);
    if (!is_position) return {};
  }
  return positions;
}

Tensor select_all(const Tensor& x, const Dims& positions) {
  Tensor part = x;
  for (const int64_t position : positions) part = select(part, 0, position);
  return part;
}

enum class Use : uint8_t { Kept, FilledOnce };

// The part at positions of the first dimensions: one view where nobody sees the single steps. A
// part that is filled with a number and dropped leaves a history as it was: it needs none itself.
Tensor part_at(const Tensor& x, Dims positions, Use use) {
  if (positions.size() > x.dim())
    fail("index: ", positions.size(), " positions for a tensor of shape ", x.sizes());
  for (int d = 0; d < positions.size(); ++d)
    positions[d] = wrap_position(positions[d], x.size(d), d, x.size(d)) - 1;
  if (intercepted() || any_below_tape() || (grad_enabled() && x.requires_grad()))
    return select_all(x, positions);
  Tensor part = views::select_first(x, positions);
  if (use == Use::FilledOnce && x.impl()->autograd == nullptr) return part;
  note_view(part, x, [positions](const Tensor& base) { return select_all(base, positions); });
  return part;
}

}  // namespace

Tensor read_index(lua_State* L, const Tensor& x, int key) {
  if (const std::optional<Dims> positions = read_positions(L, key))
    return part_at(x, *positions, Use::Kept);
  std::vector<Tensor> indices;
  Tensor out = apply_items(x, read_items(L, key), indices);
  return indices.empty() ? out : index(out, indices);
}

void assign_index(lua_State* L, const Tensor& x, int key, int value) {
  const std::optional<Scalar> number = scalar_at(L, value);
  if (number) {
    if (const std::optional<Dims> positions = read_positions(L, key)) {
      Tensor part = part_at(x, *positions, Use::FilledOnce);
      fill_(part, *number);
      return;
    }
  }
  const Items items = read_items(L, key);
  Tensor self = x;
  if (assign_mask(self, items, number)) return;
  std::vector<Tensor> indices;
  Tensor target = assigned_part(self, items, indices);
  if (indices.empty() && number) {
    fill_(target, *number);
    return;
  }
  // Numbers are made in x's dtype at once, so that one which does not fit is an error.
  const std::optional<DType> dtype =
      tensor_cell(L, value) != nullptr ? std::nullopt : std::optional<DType>(x.dtype());
  Tensor source = tensor_from_value(L, value, dtype, x.device(), "index");
  check(source.device().real() == x.device().real(), "index: cannot assign a tensor on ",
        source.device(), " to one on ", x.device());
  if (!can_expand(source.sizes(), target.sizes()) && indices.empty()) {
    fail("index: cannot assign shape ", source.sizes(), " to positions of shape ", target.sizes());
  }
  if (indices.empty()) {
    copy_(target, source);
    return;
  }
  if (source.dtype() != x.dtype()) source = to(source, x.dtype(), std::nullopt);
  index_put_(target, indices, source);
}

}  // namespace moonlet::binding
