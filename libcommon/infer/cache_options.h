// CacheOptions: what a program is told to keep keys and values in.
#pragma once

#include <string>

#include "nn/kv_cache.h"

namespace mt {

class CommandLine;
struct LoadedModel;

struct CacheOptions {
  std::string dtype = "auto";

  void add_to(CommandLine& cl);
  bool asked() const { return dtype != "auto"; }
  CacheForm form(const LoadedModel& loaded) const;
};

}  // namespace mt
