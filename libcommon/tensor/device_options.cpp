#include "tensor/device_options.h"

#include "tensor/device.h"

namespace mt {

void DeviceOptions::add_to(CommandLine& cl, const std::string& dtype_note,
                           const std::string& fp16_note) {
  add_device_to(cl);
  cl.option("--dtype", &dtype, "TYPE",
            "what is computed in: fp32; fp64 on the CPU; bf16 (not on Turing) or fp16 on a GPU" +
                dtype_note,
            one_of({"fp32", "fp64", "bf16", "fp16"}));
  cl.flag("--bf16", &bf16, "--dtype bf16");
  cl.flag("--fp16", &fp16, "--dtype fp16" + fp16_note);
}

void DeviceOptions::add_device_to(CommandLine& cl) {
  cl.gpu_version(device::version);
  cl.option("--device", &device_name, "NAME",
            "cpu, cuda, or auto: cuda where there is a GPU that serves",
            one_of({"auto", "cpu", "cuda"}));
}

void DeviceOptions::add_dequantize_to(CommandLine& cl) {
  dequantize = false;
  cl.flag("--dequantize", &dequantize,
          "make numbers of --dtype of a GGUF file's blocks q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, "
          "q5_k, q6_k and mxfp4, and of matrices of fp8, int8 or four bits in a folder of Hugging "
          "Face's, to the bits of the checkpoint that mt-convert makes, as of others always; else "
          "products in fp32 on the CPU, and in bf16 on a GPU such as an H100, read these as they "
          "are, in about the memory that they take there");
}

DType DeviceOptions::compute_dtype() const {
  if (dtype == "fp64") return DType::f64;
  if (dtype == "bf16") return DType::bf16;
  return dtype == "fp16" ? DType::f16 : DType::f32;
}

DType DeviceOptions::compute_dtype(DType stored) const {
  if (!dtype.empty()) return compute_dtype();
  const bool on_gpu =
      stored != DType::f64 && (stored != DType::bf16 || device::without_bf16().empty());
  const bool computed = device() == Device::cuda ? on_gpu : size_of(stored) > 2;
  return computed ? stored : DType::f32;
}

// In place of auto.
static void choose_device(DeviceOptions& o, bool gpu_serves, bool narrow) {
  o.device_name = "cpu";
  if (!gpu_serves || o.dtype == "fp64") return;
  if (!narrow) o.left_aside = device::without_code();
  if (narrow || (device::count() > 0 && o.left_aside.empty())) o.device_name = "cuda";
}

void DeviceOptions::warn(const Log& log) const {
  if (!left_aside.empty()) log.warn(left_aside + "; this run is on the CPU");
}

void DeviceOptions::complete(bool gpu_serves) {
  if (bf16 && fp16) fail(Exit::usage, "--bf16 and --fp16 exclude each other");
  if (bf16 || fp16) dtype = bf16 ? "bf16" : "fp16";
  const bool narrow = dtype == "bf16" || dtype == "fp16";
  const std::string given = concat(bf16 || fp16 ? "--" : "--dtype ", dtype);
  if (narrow && device_name == "auto" && gpu_serves && !supposed && device::count() == 0)
    fail(Exit::unavailable, given, ": needs a GPU, and there is none (", device::version(),
         "); on the CPU --dtype fp32 or fp64");
  if (device_name == "auto") choose_device(*this, gpu_serves, narrow);
  if (device() == Device::cpu && narrow)
    fail(Exit::bad_config, given, ": needs a GPU; on the CPU --dtype fp32 or fp64");
  if (device() == Device::cuda && dtype == "fp64")
    fail(Exit::bad_config, "--device cuda: computes no fp64; see --dtype");
  if (device() == Device::cpu || supposed) return;
  device::check_code();
  if (const std::string why = device::without_bf16(); dtype == "bf16" && !why.empty())
    fail(Exit::bad_config, "--dtype bf16: ", why);
}

}  // namespace mt
