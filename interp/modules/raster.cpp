// interp/modules/raster.cpp: draws the items of a page (stdlib/plot/page.lua) with cairo.
#include "interp/modules/modules.h"

#include "interp/state/guard.h"
#include "moonlet_config.h"
#include "tensor/core/error.h"

#if MOONLET_CAIRO

#include <algorithm>
#include <cstdlib>
#include <numbers>
#include <string>
#include <string_view>

#include "interp/modules/cairo_library.h"
#include "tensor/io/late_library.h"
#include "tensor/memory/free_list.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {

namespace {

Cairo load_cairo() {
  Cairo out;
  io::LateLibrary library("cairo", "libcairo.so.2");
#define MOONLET_CAIRO_FIND(name) library.find("cairo_" #name, out.name);
  MOONLET_CAIRO_FUNCTIONS(MOONLET_CAIRO_FIND)
#undef MOONLET_CAIRO_FIND
  out.missing = library.missing;
  return out;
}

// Reads the fields of the item on top of the stack, in their order.
class Item {
 public:
  explicit Item(lua_State* L) : L_(L), table_(lua_gettop(L)) {}
  double number() {
    push();
    check(lua_type(L_, -1) == LUA_TNUMBER, "png: a number is missing in a page");
    return pop(static_cast<double>(lua_tonumber(L_, -1)));
  }
  bool boolean() {
    push();
    return pop(lua_toboolean(L_, -1) != 0);
  }
  std::string text() {
    push();
    size_t size = 0;
    check(lua_type(L_, -1) == LUA_TSTRING, "png: a text is missing in a page");
    const char* bytes = lua_tolstring(L_, -1, &size);
    return pop(std::string(bytes, size));
  }
  // Pushes the table that is the next field.
  void push_table() {
    push();
    check(lua_type(L_, -1) == LUA_TTABLE, "png: a table is missing in a page");
  }

 private:
  void push() { lua_rawgeti(L_, table_, ++at_); }
  template <class T>
  T pop(T value) {
    lua_pop(L_, 1);
    return value;
  }

  lua_State* L_;
  int table_;
  lua_Integer at_ = 0;
};

class Painter {
 public:
  Painter(int width, int height, double scale)
      : surface_(cairo().image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width * scale),
                                              static_cast<int>(height * scale))),
        context_(cairo().create(surface_.get())) {
    check_status(cairo().surface_status(surface_.get()));
    cairo().scale(context_.get(), scale, scale);
  }

  // Draws the item on top of the stack.
  void draw(lua_State* L) {
    Item item(L);
    const std::string kind = item.text();
    if (kind == "text") return text(item);
    if (kind == "line") return line(item);
    if (kind == "rect") return rect(item);
    if (kind == "circle") return circle(item);
    if (kind == "polyline") return polyline(L, item);
    if (kind == "enter") return enter(item);
    if (kind == "leave") return cairo().restore(context_.get());
    if (kind == "crisp") return cairo().set_antialias(context_.get(), CAIRO_ANTIALIAS_NONE);
    check(kind == "smooth", "png: a page has no '", kind, "'");
    cairo().set_antialias(context_.get(), CAIRO_ANTIALIAS_DEFAULT);
  }

  std::string png() {
    check_status(cairo().status(context_.get()));
    std::string out;
    const auto append_bytes = [](void* to, const unsigned char* data, unsigned size) {
      static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), size);
      return CAIRO_STATUS_SUCCESS;
    };
    check_status(cairo().surface_write_to_png_stream(surface_.get(), append_bytes, &out));
    return out;
  }

 private:
  static void check_status(cairo_status_t status) {
    if (status == CAIRO_STATUS_NO_MEMORY) throw std::bad_alloc();
    check(status == CAIRO_STATUS_SUCCESS, "png: ", cairo().status_to_string(status));
  }

  // "#rrggbb"
  void set_color(const std::string& color, double opacity = 1) {
    check(color.size() == 7 && color[0] == '#', "png: '", color, "' is no colour");
    const unsigned long rgb = std::strtoul(color.c_str() + 1, nullptr, 16);
    cairo().set_source_rgba(context_.get(), static_cast<double>(rgb >> 16 & 255) / 255,
                            static_cast<double>(rgb >> 8 & 255) / 255,
                            static_cast<double>(rgb & 255) / 255, opacity);
  }

  void text(Item& item) {
    const double x = item.number(), y = item.number();
    const std::string value = item.text(), anchor = item.text();
    set_color(item.text());
    const double size = item.number();
    const auto weight = item.boolean() ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL;
    const bool upright = item.boolean();
    cairo_t* c = context_.get();
    cairo().save(c);
    cairo().select_font_face(c, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL, weight);
    cairo().set_font_size(c, size);
    cairo_text_extents_t extents;
    cairo().text_extents(c, value.c_str(), &extents);
    cairo().translate(c, x, y);
    if (upright) cairo().rotate(c, -std::numbers::pi / 2);
    const double part = anchor == "start" ? 0 : anchor == "end" ? 1 : 0.5;
    cairo().move_to(c, -part * extents.x_advance, 0);
    cairo().show_text(c, value.c_str());
    cairo().restore(c);
  }

  void line(Item& item) {
    cairo_t* c = context_.get();
    const double x0 = item.number(), y0 = item.number();
    const double x1 = item.number(), y1 = item.number();
    set_color(item.text());
    cairo().set_line_width(c, 1);
    cairo().move_to(c, x0, y0);
    cairo().line_to(c, x1, y1);
    cairo().stroke(c);
  }

  void rect(Item& item) {
    cairo_t* c = context_.get();
    const double x = item.number(), y = item.number();
    const double width = item.number(), height = item.number();
    set_color(item.text());
    const double round = std::min({item.number(), width / 2, height / 2});
    if (round > 0) {
      constexpr double kQuarter = std::numbers::pi / 2;
      cairo().new_sub_path(c);
      cairo().arc(c, x + width - round, y + round, round, -kQuarter, 0);
      cairo().arc(c, x + width - round, y + height - round, round, 0, kQuarter);
      cairo().arc(c, x + round, y + height - round, round, kQuarter, 2 * kQuarter);
      cairo().arc(c, x + round, y + round, round, 2 * kQuarter, 3 * kQuarter);
    } else {
      cairo().rectangle(c, x, y, width, height);
    }
    cairo().fill(c);
  }

  void circle(Item& item) {
    const double x = item.number(), y = item.number(), radius = item.number();
    const std::string color = item.text();
    set_color(color, item.number());
    cairo().new_sub_path(context_.get());
    cairo().arc(context_.get(), x, y, radius, 0, 2 * std::numbers::pi);
    cairo().fill(context_.get());
  }

  void polyline(lua_State* L, Item& item) {
    cairo_t* c = context_.get();
    item.push_table();
    const lua_Integer count = static_cast<lua_Integer>(lua_rawlen(L, -1)) / 2;
    Item points(L);
    for (lua_Integer i = 0; i < count; ++i) {
      const double x = points.number(), y = points.number();
      cairo().line_to(c, x, y);  // the first one moves
    }
    lua_pop(L, 1);
    set_color(item.text());
    cairo().set_line_width(c, 2);
    cairo().set_line_cap(c, CAIRO_LINE_CAP_ROUND);
    cairo().set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    cairo().stroke(c);
    cairo().set_line_cap(c, CAIRO_LINE_CAP_BUTT);
  }

  void enter(Item& item) {
    const double x = item.number(), y = item.number();
    const double width = item.number(), height = item.number();
    cairo().save(context_.get());
    cairo().rectangle(context_.get(), x, y, width, height);
    cairo().clip(context_.get());
  }

  CairoSurface surface_;
  CairoContext context_;
};

int l_png(lua_State* L) {
  check(cairo().missing.empty(), "png: ", cairo().missing);
  const int width = static_cast<int>(luaL_checkinteger(L, 1));
  const int height = static_cast<int>(luaL_checkinteger(L, 2));
  const double scale = luaL_checknumber(L, 3);
  luaL_checktype(L, 4, LUA_TTABLE);
  lua_settop(L, 4);
  const double wide = width * scale, high = height * scale;
  check(wide >= 0 && wide < 32768 && high >= 0 && high < 32768, "png: a picture of ", wide, " by ",
        high, " pixels is too big; 32767 on a side are possible");
  memory::Growth pixels;
  pixels.reach(static_cast<size_t>(4 * wide * high));
  Painter painter(width, height, scale);
  const lua_Integer count = static_cast<lua_Integer>(lua_rawlen(L, 4));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, 4, i);
    luaL_checktype(L, 5, LUA_TTABLE);
    stop_if_requested();
    painter.draw(L);
    lua_settop(L, 4);
  }
  const std::string bytes = painter.png();
  lua_pushlstring(L, bytes.data(), bytes.size());
  return 1;
}

int l_unavailable(lua_State* L) {
  if (cairo().missing.empty())
    lua_pushnil(L);
  else
    lua_pushstring(L, cairo().missing.c_str());
  return 1;
}

}  // namespace

const Cairo& cairo() {
  static const Cairo functions = load_cairo();
  return functions;
}

}  // namespace moonlet

#else

namespace moonlet {
namespace {

constexpr const char* kMissing =
    "this build has none: install cairo (Debian: libcairo2-dev) and build again";

int l_png(lua_State*) { fail("png: ", kMissing); }

int l_unavailable(lua_State* L) {
  lua_pushstring(L, kMissing);
  return 1;
}

}  // namespace
}  // namespace moonlet

#endif

int luaopen_moonlet_raster(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"png", moonlet::guard<moonlet::l_png>},
                                        {"unavailable", moonlet::guard<moonlet::l_unavailable>},
                                        {nullptr, nullptr}};
  luaL_newlib(L, kFunctions);
  return 1;
}
