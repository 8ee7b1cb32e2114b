// LoraOptions: which low-rank adapters a run learns, while the weights of its model are frozen.
#pragma once

#include <string>
#include <vector>

#include "model/config/adapter_config.h"

namespace mt {

class CommandLine;
struct ModelConfig;

struct LoraOptions {
  std::vector<std::string> targets = {"all-linear"};
  std::vector<std::string> given = {};  // the names of options that only adapters have

  void add_to(CommandLine& cl, AdapterConfig& adapters, std::string& adapter);
  // Notes which options were given.  Once the command line is parsed.
  void note(const CommandLine& cl);
  // Takes what was not given from the adapters that are loaded.  Before the command line is used.
  void take_stored(CommandLine& cl, const AdapterConfig& stored, const std::string& from) const;
  // Checks what was given, and finds the modules that get adapters; the model is completed but for
  // them.  base: the path of the model that they are of, if there is one.  Exit::bad_config where
  // that is another than the one that they were trained with.
  void complete(ModelConfig& model, const std::string& base) const;
};

}  // namespace mt
