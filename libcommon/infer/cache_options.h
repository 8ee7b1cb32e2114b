// CacheOptions: what a program is told to keep keys and values in.
#pragma once

#include <string>

#include "nn/kv_cache.h"

namespace mt {

class CommandLine;

struct CacheOptions {
  std::string dtype = "auto";

  void add_to(CommandLine& cl);
  bool asked() const { return dtype != "auto"; }
  // For a model that was loaded from there.
  CacheForm form(const std::string& folder) const;
};

}  // namespace mt
