#include "train/report/memory_report.h"

#include <gtest/gtest.h>

#include "model/config/model_config.h"
#include "tests/support/matches.h"

namespace mt {
namespace {

ModelConfig sized(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                  std::int64_t vocab) {
  ModelConfig config;
  config.num_layers = layers;
  config.hidden_size = hidden;
  config.num_attention_heads = heads;
  config.padded_vocab_size = vocab;
  return config;
}

// spec/training.md 11.4: 345M with the distributed optimizer on 8 ranks, of 353 601 536 parameters.
TEST(TheoreticalMemory, Of345M) {
  EXPECT_EQ(theoretical_memory_text(sized(24, 1024, 16, 50304), 8, true),
            "Number of parameters in transformer block in billions:  0.30\n"
            "Number of parameters in embedding layers in billions: 0.05\n"
            "Total number of parameters in billions: 0.35\n"
            "Number of parameters in most loaded shard in billions: 0.3536\n"
            "Theoretical memory footprints: weight and optimizer=2529.16 MB");
}

// There 47333.56 MB for each of 8 tensor-parallel ranks.
TEST(TheoreticalMemory, Of22B) {
  const std::string text = theoretical_memory_text(sized(48, 6144, 64, 51200), 1, false);
  EXPECT_TRUE(text.ends_with("weight and optimizer=378668.46 MB")) << text;
}

// Two matrices for the vocabulary, three for the MLP, and fewer heads of keys and values: 7B.
TEST(TheoreticalMemory, OfLlama3) {
  ModelConfig config = sized(32, 4096, 32, 128256);
  config.group_query_attention = config.swiglu = config.untie_embeddings_and_output_weights = true;
  config.num_query_groups = 8;
  config.ffn_hidden_size = 14336;
  const std::string text = theoretical_memory_text(config, 1, false);
  EXPECT_NE(text.find("transformer block in billions:  6.98\n"), std::string::npos) << text;
  EXPECT_NE(text.find("embedding layers in billions: 1.05\n"), std::string::npos) << text;
  EXPECT_NE(text.find("loaded shard in billions: 8.0305\n"), std::string::npos) << text;
}

TEST(Memory, IsPrintedInMegabytes) {
  const std::string text = memory_text(10, 3 << 19);
  const std::string megabytes = "[0-9]+[.][0-9]+";
  EXPECT_TRUE(matches(text,
                      "[[]Rank 0[]] [(]after 10 iterations[)] memory [(]MB[)] [|] allocated: 1[.]5 "
                      "[|] max allocated: 1[.]5 [|] reserved: " +
                          megabytes + " [|] max reserved: " + megabytes))
      << text;
  EXPECT_NE(memory_text(1, 2 << 20).find(" allocated: 2.0 |"), std::string::npos);
  EXPECT_GT(resident_bytes(), 1e5);
}

}  // namespace
}  // namespace mt
