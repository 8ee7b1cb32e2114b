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
  // Weights that lie in blocks of few bits become numbers of the type that computes, instead of
  // being multiplied with as they are, which the CPU does in fp32.
  bool dequantize = true;
  bool supposed = false;  // what is computed on is a plan's, and no GPU of this machine
  std::string left_aside =
      {};  // why `auto` left this machine's GPU aside, if this build has no code

  // The notes stand behind the help of --dtype and of --fp16.
  void add_to(CommandLine& cl, const std::string& dtype_note, const std::string& fp16_note = {});
  // --device alone, of what computes in f32 whatever it is given.
  void add_device_to(CommandLine& cl);
  // Where such weights stay as they are unless this says otherwise.
  void add_dequantize_to(CommandLine& cl);
  // Chooses what `auto` leaves open; a GPU is no choice unless it serves.  Exit::bad_config for
  // what the device does not compute in, Exit::unavailable for a GPU that this build has no code
  // for.
  void complete(bool gpu_serves);
  // Says so where `auto` left a GPU aside.
  void warn(const Log& log) const;

  Device device() const { return device_name == "cuda" ? Device::cuda : Device::cpu; }
  DType compute_dtype() const;
  // Where none is given, what values are stored in, if the device computes in that: the CPU does
  // not in 16 bits, nor a GPU in 64, nor one of Turing in bf16: all then in fp32.
  DType compute_dtype(DType stored) const;
  // Whether weights in blocks stay as they are, of a model that is stored so.
  bool keeps_blocks(DType stored) const {
    const DType dtype_used = compute_dtype(stored);
    return !dequantize && dtype_used == (device() == Device::cpu ? DType::f32 : DType::bf16);
  }
};

}  // namespace mt
