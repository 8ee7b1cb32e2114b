#include "tensor/device_options.h"

#include "tensor/device.h"

namespace mt {

void DeviceOptions::add_to(CommandLine& cl, const std::string& dtype_note,
                           const std::string& fp16_note) {
  cl.gpu_version(device::version);
  cl.option("--device", &device_name, "NAME",
            "cpu, cuda, or auto: cuda where there is a GPU that serves",
            one_of({"auto", "cpu", "cuda"}));
  cl.option("--dtype", &dtype, "TYPE",
            "what is computed in: fp32; fp64 on the CPU; bf16 or fp16 on a GPU" + dtype_note,
            one_of({"fp32", "fp64", "bf16", "fp16"}));
  cl.flag("--bf16", &bf16, "--dtype bf16");
  cl.flag("--fp16", &fp16, "--dtype fp16" + fp16_note);
}

DType DeviceOptions::compute_dtype() const {
  if (dtype == "fp64") return DType::f64;
  if (dtype == "bf16") return DType::bf16;
  return dtype == "fp16" ? DType::f16 : DType::f32;
}

DType DeviceOptions::compute_dtype(DType stored) const {
  if (!dtype.empty()) return compute_dtype();
  const bool computed = device() == Device::cuda ? stored != DType::f64 : size_of(stored) > 2;
  return computed ? stored : DType::f32;
}

void DeviceOptions::complete(bool gpu_serves) {
  if (bf16 && fp16) fail(Exit::usage, "--bf16 and --fp16 exclude each other");
  if (bf16 || fp16) dtype = bf16 ? "bf16" : "fp16";
  const bool narrow = dtype == "bf16" || dtype == "fp16";
  if (device_name == "auto")
    device_name = gpu_serves && dtype != "fp64" && (narrow || device::count() > 0) ? "cuda" : "cpu";
  if (device() == Device::cpu && narrow)
    fail(Exit::bad_config, "--dtype ", dtype, ": the CPU computes in fp32 or fp64");
  if (device() == Device::cuda && dtype == "fp64")
    fail(Exit::bad_config, "--device cuda: computes no fp64; see --dtype");
}

}  // namespace mt
