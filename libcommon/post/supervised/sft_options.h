// SftOptions: what `mt-finetune sft` can be told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "post/data/example_maker.h"
#include "post/data/packing.h"
#include "post/finetune_options.h"
#include "train/options/tile_options.h"

namespace mt {

struct SftOptions : FinetuneOptions {
  ExampleOptions examples;
  std::string loss = "nll", packing = "mffd", overlong = "drop";
  std::optional<std::int64_t> decoder_seq_length;    // of a T5
  bool freeze_lm = false, freeze_vit = false;        // of a LLaVA
  TileOptions tiles;                                 // likewise
  std::optional<std::int64_t> retro_attention_gate;  // of a Retro; 0: it learns without neighbours

  SftOptions() { takes_further = takes_t5 = true; }
  void add_to(CommandLine& cl);
  void add_data_to(CommandLine& cl);  // that part of it
  // Makes the model one of its type, and checks what such a run cannot do.  Once all is parsed.
  void choose_type();
  void complete();
  // Checks what --packing has no use for.  choose_type() does so, too.
  void choose_packing();
  bool cuts_texts() const { return mt::cuts_texts(packing); }
  bool is_paired() const { return model_type == "t5"; }
  bool reads_images() const { return model_type == "multimodal"; }
  bool is_retro() const { return stored && stored->model.family == ModelFamily::retro; }
  bool retrieves() const { return retro_attention_gate.value_or(1) != 0; }
  std::int64_t longest_text() const {  // in tokens; 0: any number
    return cuts_texts() ? 0 : seq_length;
  }
};

}  // namespace mt
