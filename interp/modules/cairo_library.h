// interp/modules/cairo_library.h: cairo's functions, found when the first picture is drawn:
// programs that draw none need not load the library, nor have it.
#pragma once

#include <memory>
#include <string>

#include <cairo.h>

namespace moonlet {

#define MOONLET_CAIRO_FUNCTIONS(X) \
  X(arc)                           \
  X(clip)                          \
  X(create)                        \
  X(destroy)                       \
  X(fill)                          \
  X(image_surface_create)          \
  X(line_to)                       \
  X(move_to)                       \
  X(new_sub_path)                  \
  X(rectangle)                     \
  X(restore)                       \
  X(rotate)                        \
  X(save)                          \
  X(scale)                         \
  X(select_font_face)              \
  X(set_antialias)                 \
  X(set_font_size)                 \
  X(set_line_cap)                  \
  X(set_line_join)                 \
  X(set_line_width)                \
  X(set_source_rgba)               \
  X(show_text)                     \
  X(status)                        \
  X(status_to_string)              \
  X(stroke)                        \
  X(surface_destroy)               \
  X(surface_status)                \
  X(surface_write_to_png_stream)   \
  X(text_extents)                  \
  X(translate)

struct Cairo {
#define MOONLET_CAIRO_POINTER(name) decltype(&::cairo_##name) name = nullptr;
  MOONLET_CAIRO_FUNCTIONS(MOONLET_CAIRO_POINTER)
#undef MOONLET_CAIRO_POINTER
  std::string missing;  // why the functions are not there; empty when they are
};

// Loaded at the first call, for good.
const Cairo& cairo();

struct CairoDeleter {
  void operator()(cairo_t* context) const { cairo().destroy(context); }
  void operator()(cairo_surface_t* surface) const { cairo().surface_destroy(surface); }
};

using CairoSurface = std::unique_ptr<cairo_surface_t, CairoDeleter>;
using CairoContext = std::unique_ptr<cairo_t, CairoDeleter>;

}  // namespace moonlet
