// SftOptions: what `mt-finetune sft` can be told.
#pragma once

#include <string>

#include "post/data/example_maker.h"
#include "post/finetune_options.h"

namespace mt {

struct SftOptions : FinetuneOptions {
  ExampleOptions examples;
  std::string loss = "nll", packing = "mffd", overlong = "drop";

  void add_to(CommandLine& cl);
  void add_data_to(CommandLine& cl);  // that part of it
  void complete();
  std::int64_t longest_text() const {  // in tokens; 0: any number
    return packing == "wrapped" ? 0 : seq_length;
  }
};

}  // namespace mt
