// PositionConfig: how a model knows where in a text a token stands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt {

struct PositionConfig {
  std::int64_t max_position_embeddings = 0;
  std::int64_t first_position = 0;  // a text's first token has this row of the learned table
  std::string position_embedding_type = "learned_absolute";  // or rope, alibi, none
  bool use_rotary_position_embeddings = false;               // another word for rope
  bool position_embedding = true;                            // --no-position-embedding: see check()
  double rotary_base = 10000;
  double rotary_percent = 1;
  bool rotary_interleaved = false;
  std::optional<double> rotary_interpolation;  // positions are divided by this
  bool use_rope_scaling = false;               // Llama 3.1's
  double rope_scaling_factor = 8;
  // What each pair's frequency is divided by, as in "1,1.5": YaRN's and others'.  Queries and keys
  // are multiplied by the second.
  std::string rope_frequency_factors;
  double rope_attention_factor = 1;
  // Layers that have a window turn by frequencies of this base, and no scaling; 0: as the others.
  double rotary_base_window = 0;
  std::vector<std::int64_t> no_rope_freq;  // see turns()

  void check(std::int64_t head_dim, std::int64_t layers) const;

  bool has_rope() const { return position_embedding_type == "rope"; }
  bool has_alibi() const { return position_embedding_type == "alibi"; }
  bool has_positions() const { return position_embedding_type == "learned_absolute"; }
  std::int64_t rotated(std::int64_t head_dim) const;  // channels of a head; 0 without rope
  // Whether a layer, from 0, has rotary positions: not every N-th of one number N, and of several
  // those that are 0.
  bool turns(std::int64_t layer) const;
  // By how much a pair of channels turns from a position to the next: rotated() / 2 of them.
  std::vector<double> frequencies(std::int64_t head_dim) const;
  std::vector<double> window_frequencies(std::int64_t head_dim) const;  // of layers with a window
};

// The rotary_percent of which so many channels of a head are rotated().
double rotary_percent_of(std::int64_t channels, std::int64_t head_dim);

}  // namespace mt
