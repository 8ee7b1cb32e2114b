// DeviceOptions: where a program computes, and in what.
#pragma once

#include <string>

#include "base/command.h"
#include "tensor/tensor.h"

namespace mt {

struct DeviceOptions {
  std::string device_name = "auto";
  std::string dtype = "fp32";  // or "", which needs a type to fall back to
  bool bf16 = false, fp16 = false;

  // The notes stand behind the help of --dtype and of --fp16.
  void add_to(CommandLine& cl, const std::string& dtype_note, const std::string& fp16_note = {});
  // Chooses what `auto` leaves open; a GPU is no choice unless it serves.  Exit::bad_config for
  // what the device does not compute in.
  void complete(bool gpu_serves);

  Device device() const { return device_name == "cuda" ? Device::cuda : Device::cpu; }
  DType compute_dtype() const;
  // Where none is given, what values are stored in, if the device computes in that: the CPU does
  // not in 16 bits nor a GPU in 64, both then in fp32.
  DType compute_dtype(DType stored) const;
};

}  // namespace mt
