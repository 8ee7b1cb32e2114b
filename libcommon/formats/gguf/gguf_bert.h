// What llama.cpp knows of BERT, RoBERTa, XLM-RoBERTa, CamemBERT and DistilBERT, as bert: models of
// embeddings.  It has no place for heads, for a pooler, and for the rows of positions in front of
// the first token's.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "formats/gguf/gguf_settings.h"
#include "formats/names/foreign_name.h"

namespace mt {

struct ModelConfig;

// Exit::bad_config names what a file has no place for.
void check_gguf_bert(const ModelConfig& config);
void add_gguf_bert(GgufKeyValues& values, const ModelConfig& config);
// What is left out or computed otherwise.
std::string gguf_bert_warning(const ModelConfig& config);

// The reverse: the model_type, by the kind of tokenizer and the tensors, and members of a
// config.json.
std::string gguf_bert_type(const GgufReader& file);
void read_gguf_bert(JsonWriter& json, const GgufSettings& file);

// None for a pooler's.
std::vector<ForeignName> gguf_bert_tensors(const ModelConfig& config, const Param& row);
// Whether a file has but a part of a row.
bool is_cut_positions(const ModelConfig& config, const Param& row);

}  // namespace mt
