// cuda/loops/device_headers.h: the texts of the headers that sources of loops include. The table is
// generated.
#pragma once

namespace moonlet::cuda::loops {

struct DeviceHeader {
  const char *name, *text;
};
extern const DeviceHeader kDeviceHeaders[];
extern const int kDeviceHeaderCount;

}  // namespace moonlet::cuda::loops
