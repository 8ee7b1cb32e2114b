// SftOptions: what `mt-finetune sft` can be told.
#pragma once

#include <string>

#include "post/data/example_maker.h"
#include "post/finetune_options.h"

namespace mt {

struct SftOptions : FinetuneOptions {
  ExampleOptions examples;
  std::string packing = "mffd", overlong = "drop";

  void add_to(CommandLine& cl);
  void complete();
};

}  // namespace mt
