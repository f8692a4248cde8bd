// tensor/runtime/cudnn_settings.cpp: the settings of this thread.
#include "tensor/runtime/cudnn_settings.h"

namespace moonlet {

constinit thread_local CudnnSettings cudnn_settings;

}  // namespace moonlet
