// cuda/libraries/cudnn_headers.h: whether the headers of cuDNN 9 are there: MOONLET_HAS_CUDNN.
// Without them nothing of it is compiled.
#pragma once

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#if CUDNN_MAJOR >= 9
#define MOONLET_HAS_CUDNN
#endif
#endif
