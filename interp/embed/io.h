// moonlet/io.h: files of tensors in C++ alone: weights in safetensors files, tables of numbers or
// texts in CSV files, arrays in IDX files. Scripts read and write them through the same functions.
#pragma once

#include "tensor/io/csv.h"
#include "tensor/io/idx.h"
#include "tensor/io/safetensors.h"
