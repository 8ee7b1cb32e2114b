// CacheOptions: what a program is told to keep keys and values in.
#pragma once

#include <string>

#include "nn/kv_cache.h"

namespace mt {

class CommandLine;
struct DeviceOptions;
struct LoadedModel;

struct CacheOptions {
  std::string dtype = "auto";

  void add_to(CommandLine& cl);
  bool asked() const { return dtype != "auto"; }
  // Exit::unavailable for what the device has no form for; before anything is loaded.
  void check(const DeviceOptions& compute) const;
  CacheForm form(const LoadedModel& loaded) const;
};

}  // namespace mt
