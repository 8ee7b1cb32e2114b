// What config.json says of Gemmas, Phi-3, OLMo 2, Granite, SmolLM3, Command R and others: defaults
// of their classes (transformers 5.24), both generations' words, and what is refused.
#include "formats/hugging_face/dense_families.h"

#include <gtest/gtest.h>

#include "tests/formats/convert_support.h"

namespace mt {
namespace {

ModelConfig model_of(const std::string& type, const std::string& more = "") {
  ModelConfig c =
      parse_hugging_face_config(concat(R"({"model_type":")", type, '"', more, "}"), "c").model;
  c.complete();
  return c;
}

std::string refusal(const std::string& type, const std::string& more) {
  return error_of([&] { model_of(type, more); });
}

TEST(DenseFamilies, DefaultsOfTheClasses) {
  const ModelConfig gemma2 = model_of("gemma2");
  EXPECT_EQ(gemma2.attn_logit_softcapping, 50);
  EXPECT_EQ(gemma2.final_logit_softcapping, 30);
  EXPECT_EQ(gemma2.window(0), 4095);
  EXPECT_EQ(gemma2.window(1), -1);
  EXPECT_EQ(gemma2.score_scale(), 1.0 / 16);
  EXPECT_EQ(gemma2.embedding_mult, 48);
  EXPECT_NE(hugging_face_config(gemma2, DType::f32, "").find(R"("final_logit_softcapping":30.0,)"),
            std::string::npos);  // 30 is no real number to transformers 5
  const ModelConfig gemma3 = model_of("gemma3_text");
  EXPECT_EQ(gemma3.final_logit_softcapping, 0);
  EXPECT_EQ(gemma3.window(4), 4095);
  EXPECT_EQ(gemma3.window(5), -1);
  EXPECT_EQ(gemma3.rotary_base, 1000000);
  EXPECT_EQ(gemma3.rotary_base_window, 10000);
  const ModelConfig smollm3 = model_of("smollm3");
  EXPECT_TRUE(smollm3.turns(2));
  EXPECT_FALSE(smollm3.turns(3));
  EXPECT_FALSE(smollm3.untie_embeddings_and_output_weights);
  const ModelConfig command = model_of("cohere"), r7b = model_of("cohere2");
  EXPECT_EQ(command.logit_scale, 0.0625);
  EXPECT_EQ(command.rotary_base, 500000);
  EXPECT_TRUE(command.turns(3) && command.window_size.empty());
  EXPECT_TRUE(r7b.turns(2) && r7b.window(2) == 4095);
  EXPECT_FALSE(r7b.turns(3) || r7b.window(3) >= 0);
  EXPECT_EQ(model_of("granite").score_scale(), 1);
  EXPECT_EQ(model_of("phi3").window(0), -1);
  EXPECT_EQ(model_of("olmo2").norm_epsilon, 1e-5);
  EXPECT_TRUE(model_of("olmo2").qk_layernorm_whole);
}

// Decoders with LayerNorms, by the names that each has for its settings.
TEST(DenseFamilies, OwnNames) {
  const ModelConfig neox = model_of("gpt_neox"), falcon = model_of("falcon");
  EXPECT_EQ(neox.rotary_percent, 0.25);
  EXPECT_TRUE(neox.parallel_block && neox.parallel_norms && neox.has_proj_bias());
  EXPECT_EQ(model_of("gpt_neox", R"(,"rotary_pct":0.5,"rotary_emb_base":500)").rotary_base, 500);
  EXPECT_TRUE(falcon.parallel_block && !falcon.parallel_norms && falcon.kv_heads() == 1);
  const ModelConfig falcon40 =
      model_of("falcon", R"(,"hidden_size":8192,"num_attention_heads":128,"num_kv_heads":8,)"
                         R"("new_decoder_architecture":true)");
  EXPECT_TRUE(falcon40.parallel_norms && falcon40.kv_heads() == 8 && falcon40.ffn() == 32768);
  const ModelConfig gptj = model_of("gptj");
  EXPECT_EQ(gptj.rotary_dim(), 64);
  EXPECT_TRUE(gptj.output_bias && gptj.add_bias_linear && !gptj.has_qkv_bias());
  EXPECT_EQ(model_of("opt").first_position, 2);
  EXPECT_FALSE(model_of("olmo").norm_weight);
  EXPECT_EQ(model_of("phi").rotary_percent, 0.5);
  EXPECT_EQ(model_of("starcoder2", R"(,"sliding_window":7)").window(0), 6);
  EXPECT_EQ(model_of("stablelm").rotary_percent, 0.25);
  EXPECT_EQ(model_of("olmo3").window(2), 4095);
  EXPECT_EQ(model_of("olmo3").window(3), -1);
  EXPECT_TRUE(model_of("exaone4").turns(2) && !model_of("exaone4").turns(3));
  EXPECT_TRUE(model_of("exaone4", R"(,"sliding_window":null)").turns(3));
  EXPECT_TRUE(model_of("glm4").has_qkv_bias() && model_of("glm4").rotary_interleaved);
}

// Decoders that transformers has no class of, or one of another name.
TEST(DenseFamilies, MakersNames) {
  const ModelConfig exaone = model_of(
      "exaone", R"(,"num_layers":3,"layer_norm_epsilon":1e-6,"activation_function":"silu")");
  EXPECT_EQ(exaone.num_layers, 3);
  EXPECT_EQ(exaone.norm_epsilon, 1e-6);
  EXPECT_EQ(exaone.rotary_base, 500000);
  EXPECT_EQ(exaone.kv_heads(), 8);
  const ModelConfig mini =
      model_of("minicpm", R"(,"hidden_size":2304,"num_attention_heads":36,"num_hidden_layers":40,)"
                          R"("scale_emb":12,"scale_depth":1.4,"dim_model_base":256)");
  EXPECT_EQ(mini.embedding_mult, 12);
  EXPECT_DOUBLE_EQ(mini.residual_mult, 1.4 / std::sqrt(40.0));
  EXPECT_EQ(mini.logit_scale, 256.0 / 2304);
  const std::string again = hugging_face_config(mini, DType::f32, "");
  EXPECT_NE(again.find(R"("scale_depth":1.4,"dim_model_base":256.0,)"), again.npos) << again;
  const ModelConfig cwm = model_of("cwm");
  EXPECT_EQ(cwm.window(0), -1);
  EXPECT_EQ(cwm.window(3), 8191);
  EXPECT_TRUE(cwm.use_rope_scaling && cwm.rope_scaling_factor == 16 && cwm.rotary_base == 1e6);
  EXPECT_TRUE(model_of("hyperclovax").post_layernorm && !model_of("vaultgemma").post_layernorm);
  EXPECT_EQ(model_of("gpt_bigcode").kv_heads(), 1);
  EXPECT_EQ(model_of("gpt_bigcode", R"(,"multi_query":false)").kv_heads(), 12);
  EXPECT_EQ(model_of("biogpt").embedding_mult, 32);
  EXPECT_TRUE(model_of("persimmon").qk_layernorm && model_of("persimmon").squared_relu);
  EXPECT_FALSE(model_of("jais2", R"(,"attention_bias":false)").has_qkv_bias());
  EXPECT_EQ(refusal("jais2", R"(,"mlp_bias":false)"),
            "65 c: \"mlp_bias\" is false and \"attention_bias\" true, which is not supported");
  EXPECT_EQ(refusal("internlm2", ""),
            "65 c: \"bias\" is true, as it is where nothing is said, and not supported");
  const ModelConfig neo = model_of("gpt_neo");
  EXPECT_TRUE(neo.window(0) == -1 && neo.window(1) == 255 && neo.score_scale() == 1);
  EXPECT_TRUE(neo.has_proj_bias() && !neo.has_qkv_bias());
  EXPECT_EQ(model_of("gpt_neo", R"(,"num_layers":2,"attention_layers":["local","global"],)"
                                R"("attention_types":[[["global","local"],1]])")
                .window(0),
            255);
  for (const char* const types : {R"([[["global"],24],[["local"],1]])", R"([[["near"],24]])",
                                  R"([[["global"],23]])", R"([["global",24]])", "24"})
    EXPECT_EQ(refusal("gpt_neo", concat(R"(,"attention_types":)", types)),
              "65 c: \"attention_types\": expected global or local for each of 24 layers")
        << types;
  EXPECT_TRUE(model_of("bloom").has_alibi() && model_of("bloom").embedding_layernorm);
  const ModelConfig mpt =
      model_of("mpt", R"(,"attn_config":{"softmax_scale":0.5,"attn_pdrop":0.25})");
  EXPECT_TRUE(mpt.score_scale() == 0.5 && mpt.hidden_dropout == 0.25 && !mpt.norm_bias);
  EXPECT_EQ(model_of("mpt", R"(,"attn_config":{"clip_qkv":6})").clip_qkv, 6);
  EXPECT_EQ(model_of("mpt", R"(,"attn_config":{"clip_qkv":0})").clip_qkv, 0);
  EXPECT_EQ(refusal("mpt", R"(,"attn_config":{"alibi":false})"),
            "65 c: attn_config: \"alibi\" is false, which is not supported");
  // A base that is stretched is written as it was said, or as the base that it makes.
  const std::string hunyuan = R"({"model_type":"hunyuan_v1_dense","head_dim":8,"rope_theta":100.0,)"
                              R"("rope_scaling":{"type":"dynamic","alpha":8.0,"factor":1.0}})";
  ModelConfig stretched = parse_hugging_face_config(hunyuan, "c").model;
  stretched.complete();
  EXPECT_DOUBLE_EQ(stretched.rotary_base, 1600);
  const std::string kept = hugging_face_config(stretched, DType::f32, hunyuan);
  EXPECT_NE(kept.find(R"("rope_theta":100,)"), kept.npos) << kept;
  EXPECT_NE(kept.find(R"("alpha":8.0)"), kept.npos) << kept;
  EXPECT_EQ(parse_hugging_face_config(hugging_face_config(stretched, DType::f32, ""), "c")
                .model.rotary_base,
            stretched.rotary_base);
  // Behind its first positions a Ministral 3 multiplies queries: ours ends there.
  const HuggingFaceConfig third = parse_hugging_face_config(R"({"model_type":"ministral3"})", "c");
  EXPECT_EQ(third.model.max_position_embeddings, 16384);
  EXPECT_EQ(third.model.rope_attention_factor, 1);
  EXPECT_EQ(third.notes,
            std::vector<std::string>{"c: \"llama_4_scaling_beta\" is of texts of more than 16384 "
                                     "tokens; ours are shorter, and --max-position-embeddings is "
                                     "16384"});
  EXPECT_EQ(model_of("ministral3", R"(,"rope_parameters":{"rope_type":"default",)"
                                   R"("original_max_position_embeddings":8,)"
                                   R"("llama_4_scaling_beta":0.0})")
                .max_position_embeddings,
            262144);
  EXPECT_EQ(refusal("ministral3", R"(,"rope_parameters":{"rope_type":"default"})"),
            "65 c: rope_parameters: no \"llama_4_scaling_beta\"");
  EXPECT_EQ(refusal("gpt_neox", R"(,"head_dim":3)"), "65 c: \"head_dim\" is 3, expected 96");
  EXPECT_EQ(refusal("codegen", R"(,"n_head":6)"),
            "65 c: \"n_head\" is 6, expected a multiple of 4");
}

TEST(DenseFamilies, ActivationsNormsAndBounds) {
  const ModelConfig apertus = model_of("apertus");
  EXPECT_TRUE(apertus.xielu && apertus.qk_layernorm && apertus.use_rope_scaling);
  EXPECT_EQ(apertus.rotary_base, 12e6);
  EXPECT_EQ(model_of("apertus", R"(,"rope_theta":7)").rotary_base, 12e6);
  EXPECT_EQ(model_of("apertus", R"(,"rope_parameters":{"rope_type":"default"})").rotary_base, 12e6);
  ModelConfig plain = apertus;
  plain.use_rope_scaling = false;
  EXPECT_FALSE(parse_hugging_face_config(hugging_face_config(plain, DType::f32, ""), "c")
                   .model.use_rope_scaling);
  const ModelConfig nanochat = model_of("nanochat");
  EXPECT_TRUE(nanochat.squared_relu && nanochat.embedding_layernorm && !nanochat.norm_weight);
  EXPECT_EQ(nanochat.final_logit_softcapping, 15);
  EXPECT_EQ(model_of("nanochat", R"(,"final_logit_softcapping":null)").final_logit_softcapping, 0);
  EXPECT_TRUE(model_of("cohere", R"(,"use_qk_norm":true)").qk_layernorm_per_head);
  EXPECT_TRUE(model_of("stablelm", R"(,"qk_layernorm":true)").qk_layernorm_per_head);
  EXPECT_EQ(model_of("olmo", R"(,"clip_qkv":8)").clip_qkv, 8);
  EXPECT_TRUE(model_of("starcoder2", R"(,"use_bias":false)").tanh_gelu);
  EXPECT_FALSE(model_of("starcoder2").tanh_gelu);
  const ModelConfig seed = model_of("seed_oss", R"(,"mlp_bias":true)");
  EXPECT_TRUE(seed.has_qkv_bias() && !seed.has_proj_bias() && seed.add_bias_linear);
  const ModelConfig out =
      model_of("seed_oss", R"(,"attention_bias":false,"attention_out_bias":true,"mlp_bias":true)");
  EXPECT_TRUE(!out.has_qkv_bias() && out.has_proj_bias() && out.add_bias_linear);
}

TEST(DenseFamilies, BasesOfLayers) {
  const std::string four = R"(,"num_hidden_layers":4,"layer_rope_theta":)";
  const ModelConfig usual = model_of("granite_swa", R"(,"num_hidden_layers":5)");
  EXPECT_TRUE(usual.window(0) == -1 && usual.window(1) == 127 && usual.window(4) == -1);
  EXPECT_EQ(usual.softmax_type, "learnable");
  const ModelConfig own = model_of("granite_swa", four + "[100,200,0,200.0]");
  EXPECT_EQ(own.rotary_base, 100);
  EXPECT_EQ(own.rotary_base_window, 200);
  EXPECT_TRUE(own.turns(1) && !own.turns(2));
  EXPECT_EQ(model_of("granite_swa", four + "[0,200,0,200]").rotary_base, 200);
  for (const auto& [list, expected] :
       {std::pair("[100,200,300,0]",
                  "expected one base of the layers with a window, and one of the others"),
        {"[100,0,0]", "expected a number for each layer"},
        {"[100,0.5,0,0]", "expected 0 or numbers of at least 1"},
        {R"([7,0,0,0],"rope_parameters":{"rope_type":"linear","factor":2.0})",
         "expected none beside a scaling of positions"}})
    EXPECT_EQ(refusal("granite_swa", four + list),
              concat("65 c: \"layer_rope_theta\": ", expected));
}

// The first positions of a Ministral 3 stand beside its scaling or in it, its base is its class's
// own where nothing at all is said, and of any scaling both members that it asks for are written.
TEST(DenseFamilies, MinistralsPositions) {
  const std::string linear = R"({"rope_type":"linear","factor":2.0,"llama_4_scaling_beta":0.5,)"
                             R"("original_max_position_embeddings":48})";
  EXPECT_EQ(model_of("ministral3").rotary_base, 1e6);
  EXPECT_EQ(model_of("ministral3", R"(,"rope_theta":7)").rotary_base, 1e6);
  EXPECT_EQ(model_of("ministral3", R"(,"rope_parameters":)" + linear).rotary_base, 10000);
  const std::string outer = R"(,"original_max_position_embeddings":12,"rope_parameters":)";
  EXPECT_EQ(model_of("ministral3", outer + linear).max_position_embeddings, 48);
  EXPECT_EQ(model_of("ministral3", outer + R"({"rope_type":"yarn","factor":2.0,)"
                                           R"("llama_4_scaling_beta":0.5,)"
                                           R"("original_max_position_embeddings":48})")
                .max_position_embeddings,
            12);
  EXPECT_EQ(refusal("ministral3", R"(,"rope_parameters":{"rope_type":"linear","factor":2.0,)"
                                  R"("llama_4_scaling_beta":0.5})"),
            "65 c: rope_parameters: no \"original_max_position_embeddings\"");
  const std::string original = concat(
      R"({"model_type":"ministral3","max_position_embeddings":96,"rope_parameters":)", linear, '}');
  ModelConfig c = parse_hugging_face_config(original, "c").model;
  c.complete();
  const std::string kept = hugging_face_config(c, DType::f32, original);
  EXPECT_NE(kept.find("\"rope_scaling\":" + linear), kept.npos) << kept;
  EXPECT_NE(kept.find(R"("max_position_embeddings":96,)"), kept.npos) << kept;
  const std::string made = hugging_face_config(c, DType::f32, "");
  EXPECT_NE(made.find(R"("rope_type":"linear","factor":2.0,"original_max_position_embeddings":48,)"
                      R"("llama_4_scaling_beta":0.0})"),
            made.npos)
      << made;
  EXPECT_EQ(error_of([] {
              parse_hugging_face_config(
                  R"({"model_type":"mistral3","is_causal":false,"text_config":{}})", "c");
            }),
            "65 c: \"is_causal\" is not true, which is not supported");
}

// Phi-3 pads with 32000 and SmolLM3 with 128004 where nothing is said, and transformers 5 makes no
// table that lacks that row.
TEST(DenseFamilies, PaddingThatTheVocabularyHas) {
  const auto padding = [](const std::string& type, std::int64_t vocab_size,
                          const SpecialTokens* special, const std::string& said = "") {
    ModelConfig c = model_of(type, R"(,"hidden_size":64,"num_attention_heads":4)");
    c.vocab_size = vocab_size;
    c.padded_vocab_size = 0;
    c.complete();
    const std::string original =
        said.empty() ? "" : concat(R"({"model_type":")", type, R"(","eos_token_id":5)", said, "}");
    const std::string made = hugging_face_config(c, DType::f32, original, special);
    const std::size_t at = made.find(R"("pad_token_id":)");
    if (at == std::string::npos) return std::string("none");
    return made.substr(at + 15, made.find_first_of(",}", at) - at - 15);
  };
  const SpecialTokens three{.pad = 3, .eos = 5}, unknown{.eos = 5};
  for (const auto& [type, row] : {std::pair("phi3", 32000), {"smollm3", 128004}}) {
    EXPECT_EQ(padding(type, row, nullptr), "null") << type;
    EXPECT_EQ(padding(type, row + 1, nullptr), "none") << type;
    EXPECT_EQ(padding(type, 320, nullptr, " "), "null") << type;
    EXPECT_EQ(padding(type, 320, nullptr, R"(,"pad_token_id":7)"), "7") << type;
    EXPECT_EQ(padding(type, 320, &unknown), "null") << type;
    EXPECT_EQ(padding(type, 320, &unknown, " "), "null") << type;
    EXPECT_EQ(padding(type, 320, &three, " "), "3") << type;
    EXPECT_EQ(padding(type, row + 1, &three, " "), "none") << type;
  }
  EXPECT_EQ(padding("granite", 320, nullptr, " "), "none");
}

TEST(DenseFamilies, BothGenerationsWords) {
  const ModelConfig old = model_of(
      "gemma3_text",
      R"(,"rope_theta":500.0,"rope_local_base_freq":20.0,"sliding_window_pattern":2,"head_dim":8,)"
      R"("rope_scaling":{"rope_type":"linear","factor":8.0},"sliding_window":7)");
  const ModelConfig now =
      model_of("gemma3_text",
               R"(,"sliding_window":7,"head_dim":8,"num_hidden_layers":2,"layer_types":)"
               R"(["sliding_attention","full_attention"],"rope_parameters":{"sliding_attention":)"
               R"({"rope_type":"default","rope_theta":20.0},"full_attention":)"
               R"({"rope_type":"linear","factor":8.0,"rope_theta":500.0}})");
  for (const ModelConfig* c : {&old, &now}) {
    EXPECT_EQ(c->rotary_base, 500);
    EXPECT_EQ(c->rotary_base_window, 20);
    EXPECT_EQ(c->rotary_interpolation, 8);
    EXPECT_EQ(c->window(0), 6);
    EXPECT_EQ(c->window(1), -1);
  }
  EXPECT_EQ(model_of("gemma2", R"(,"final_logit_softcapping":null)").final_logit_softcapping, 0);
  EXPECT_EQ(model_of("gemma2", R"(,"sliding_window":null)").window(0), -1);
  EXPECT_TRUE(model_of("smollm3", R"(,"no_rope_layer_interval":2)").turns(0));
  EXPECT_FALSE(model_of("smollm3", R"(,"no_rope_layer_interval":2)").turns(1));
  const ModelConfig windows = model_of(
      "smollm3", R"(,"num_hidden_layers":2,"no_rope_layers":[0,1],"use_sliding_window":true,)"
                 R"("sliding_window":5)");
  EXPECT_TRUE(windows.window(0) == 4 && !windows.turns(0));
  EXPECT_TRUE(windows.window(1) == -1 && windows.turns(1));
  // A type that does not follow from what is computed stays the model's.
  EXPECT_EQ(model_of("phi3").hf_model_type, "phi3");
  EXPECT_EQ(model_of("smollm3", R"(,"no_rope_layer_interval":1000)").hf_model_type, "smollm3");
  EXPECT_EQ(model_of("gemma2").hf_model_type, "");
}

TEST(DenseFamilies, ExpertsThatAModelTypeTells) {
  const ModelConfig shared = model_of("granitemoeshared", R"(,"shared_intermediate_size":64)");
  EXPECT_EQ(shared.moe_shared_expert_intermediate_size, 64);
  EXPECT_EQ(model_of("granitemoeshared").moe_shared_expert_intermediate_size, 0);
  EXPECT_EQ(shared.num_experts, 8);
  EXPECT_EQ(shared.score_scale(), 1);
  const ModelConfig flex = model_of("flex_olmo");
  EXPECT_TRUE(flex.qk_layernorm_whole && flex.post_layernorm && !flex.pre_layernorm);
  EXPECT_TRUE(flex.moe_router_pre_softmax && flex.num_experts == 7 && flex.moe_router_topk == 5);
  EXPECT_EQ(flex.rotary_base, 500000);
  EXPECT_NE(hugging_face_config(flex, DType::f32, "").find(R"("tie_word_embeddings":false)"),
            std::string::npos);
  const ModelConfig minimax = model_of("minimax_m2", R"(,"rotary_dim":64)");
  EXPECT_TRUE(minimax.qk_layernorm_whole && minimax.moe_router_enable_expert_bias);
  EXPECT_EQ(minimax.moe_router_score_function, "sigmoid");
  EXPECT_EQ(minimax.rotary_dim(), 64);
  EXPECT_EQ(model_of("minimax_m2").rotary_dim(), 128);
  EXPECT_EQ(model_of("minimax_m2", R"(,"rotary_dim":64,"partial_rotary_factor":0.25)").rotary_dim(),
            32);  // as transformers has it
  EXPECT_EQ(minimax.rotary_base, 5e6);
  EXPECT_EQ(minimax.expert_ffn(), 1536);
  const ModelConfig lite = model_of("glm4_moe_lite");
  EXPECT_TRUE(lite.norm_epsilon == 1e-5 && lite.latent_norm_epsilon == 1e-6);
  EXPECT_EQ(model_of("glm4_moe_lite", R"(,"rms_norm_eps":1e-6)").latent_norm_epsilon, 0);
  EXPECT_EQ(lite.q_lora_rank, 768);
  EXPECT_EQ(lite.moe_router_topk_scaling_factor, 1.8);
  EXPECT_EQ(std::ranges::count(lite.experts_of_layers(47), false), 1);
  EXPECT_EQ(refusal("glm4_moe_lite", R"(,"first_k_dense_replace":2)"),
            "65 c: \"first_k_dense_replace\" is 2, expected 1, or \"mlp_layer_types\"");
  EXPECT_EQ(refusal("glm4_moe_lite", R"(,"num_hidden_layers":1,"mlp_layer_types":["both"])"),
            "65 c: \"mlp_layer_types\": expected sparse or dense");
  for (const char* const type : {"glm4_moe_lite", "solar_open"})
    EXPECT_EQ(refusal(type, R"(,"partial_rotary_factor":0.5)"),
              "65 c: \"partial_rotary_factor\" is 0.5, expected 1");
  EXPECT_EQ(model_of("solar_open").rotary_base, 1e6);
  EXPECT_FALSE(model_of("solar_open").has_qkv_bias());
  EXPECT_FALSE(model_of("solar_open").has_dense_layers(48));
  const ModelConfig exaone = model_of("exaone_moe");
  EXPECT_TRUE(exaone.turns(2) && exaone.window(2) == 4095 && !exaone.turns(3));
  EXPECT_EQ(exaone.moe_router_topk_scaling_factor, 2.5);
  EXPECT_EQ(refusal("exaone_moe", R"(,"sliding_window":null)"),
            "65 c: \"sliding_window\" is null, which its class does not take");
  const ModelConfig hy3 = model_of("hy_v3");
  EXPECT_EQ(hy3.moe_router_topk_scaling_factor, 2.826);
  EXPECT_EQ(std::ranges::count(hy3.experts_of_layers(80), false), 1);
  EXPECT_EQ(refusal("hy_v3", R"(,"mlp_bias":true)"),
            "65 c: \"mlp_bias\" is true, which is not supported");
  EXPECT_EQ(refusal("hy_v3", R"(,"num_experts_per_tok":1)"),
            "65 c: \"num_experts_per_tok\" is 1, expected more, of which the sum is 1");
  const ModelConfig hunyuan = model_of(
      "hunyuan_v1_moe", R"(,"num_hidden_layers":2,"num_experts":4,"moe_topk":[2,2],)"
                        R"("num_shared_expert":[1,1],"moe_intermediate_size":[11008,11008])");
  EXPECT_TRUE(hunyuan.moe_router_topk == 2 && hunyuan.qk_layernorm_behind_rope);
  EXPECT_EQ(hunyuan.moe_shared_expert_intermediate_size, 11008);
  EXPECT_EQ(refusal("hunyuan_v1_moe", ""), "65 c: \"moe_topk\" is 1, expected more");
  EXPECT_EQ(refusal("hunyuan_v1_moe", R"(,"num_experts":4,"moe_topk":[2,3])"),
            "65 c: \"moe_topk\": expected one number of all layers");
  EXPECT_EQ(refusal("hunyuan_v1_moe", R"(,"num_experts":4,"moe_topk":2,"num_shared_expert":2)"),
            "65 c: \"num_shared_expert\" is 2, expected 1");
  EXPECT_EQ(refusal("hunyuan_v1_moe", R"(,"num_experts":4,"moe_topk":2,"use_cla":true)"),
            "65 c: \"use_cla\" is true, which is not supported");
  EXPECT_EQ(refusal("minimax_m2", R"(,"num_experts_per_tok":1)"),
            "65 c: \"num_experts_per_tok\" is 1, expected more, of which the sum is 1");
  EXPECT_EQ(refusal("minimax_m2", R"(,"use_routing_bias":false)"),
            "65 c: \"use_routing_bias\" is false, which is not supported");
  EXPECT_EQ(refusal("minimax_m2", R"(,"qk_norm_type":"per_head")"),
            "65 c: \"qk_norm_type\" is \"per_head\", expected \"per_layer\"");
  EXPECT_EQ(refusal("minimax_m2", R"(,"attn_type_list":[1,0])"),
            "65 c: \"attn_type_list\": expected 1, attention by softmax, for each layer");
  EXPECT_EQ(refusal("minimax_m2", R"(,"attn_type_list":1)"),
            "65 c: \"attn_type_list\": expected a number for each layer");
  EXPECT_EQ(refusal("minimax_m2", R"(,"shared_intermediate_size":8)"),
            "65 c: \"shared_intermediate_size\" is 8, expected 0");
  EXPECT_EQ(refusal("minimax_m2", R"(,"rotary_dim":256)"),
            "65 c: \"rotary_dim\" is 256, expected 1 to the 128 channels of a head");
}

TEST(DenseFamilies, WhatIsNotTheirsIsRefused) {
  EXPECT_EQ(refusal("gemma3_text", R"(,"use_bidirectional_attention":true)"),
            "65 c: \"use_bidirectional_attention\" is true, which is not supported");
  EXPECT_EQ(
      refusal("gemma3_text", R"(,"rope_scaling":{"type":"linear","factor":2.0})"),
      "65 c: rope_scaling: has no \"rope_type\", without which transformers 5 scales nothing");
  EXPECT_EQ(refusal("gemma3_text", R"(,"rope_scaling":{"rope_type":"linear","factor":2.0},)"
                                   R"("rope_parameters":{"full_attention":{}})"),
            "65 c: \"rope_scaling\" beside \"rope_parameters\" is not supported");
  EXPECT_EQ(refusal("gemma3_text", R"(,"rope_scaling":{},"rope_parameters":{"full_attention":{}})"),
            "");
  EXPECT_EQ(refusal("cohere2", R"(,"use_qk_norm":true)"),
            "65 c: \"use_qk_norm\" is true, which is not supported");
  EXPECT_EQ(refusal("granite", R"(,"logits_scaling":0)"),
            "65 c: \"logits_scaling\" is 0, expected more than 0");
  EXPECT_EQ(refusal("gemma2", R"(,"sliding_window":0)"),
            "65 c: \"sliding_window\" is 0, expected at least 1");
  EXPECT_EQ(refusal("gemma2", R"(,"layer_types":["full_attention"])"),
            "65 c: \"layer_types\": expected one for each layer");
  EXPECT_EQ(refusal("gemma2", R"(,"attn_logit_softcapping":-1)"),
            "65 c: \"attn_logit_softcapping\" is -1, expected more than 0");
  EXPECT_EQ(refusal("smollm3", R"(,"num_hidden_layers":1,"no_rope_layers":[2])"),
            "65 c: \"no_rope_layers\": expected 0 or 1");
  EXPECT_EQ(refusal("smollm3", R"(,"num_hidden_layers":1,"no_rope_layers":[1],"sliding_window":4,)"
                               R"("layer_types":["sliding_attention"])"),
            "65 c: \"layer_types\" has windows, and \"use_sliding_window\" none");
  EXPECT_EQ(refusal("cohere2", R"(,"sliding_window_pattern":0)"),
            "65 c: \"sliding_window_pattern\" is 0, expected at least 1");
  EXPECT_EQ(refusal("gemma3_text", R"(,"rope_local_base_freq":0.5)"),
            "65 c: the base of layers with a window is 0.5, expected at least 1");
  EXPECT_EQ(refusal("phi3", R"(,"hidden_act":"gelu")"),
            "65 c: \"hidden_act\" is \"gelu\", expected \"silu\"");
  EXPECT_EQ(refusal("glm4_moe", R"(,"topk_group":0)"),
            "65 c: \"topk_group\" is 0, expected at least 1");
  EXPECT_EQ(refusal("falcon", R"(,"alibi":true)"),
            "65 c: \"alibi\" is true, which is not supported");
  EXPECT_EQ(refusal("opt", R"(,"do_layer_norm_before":false)"),
            "65 c: \"do_layer_norm_before\" is false, which is not supported");
  EXPECT_EQ(refusal("opt", R"(,"hidden_size":1024,"word_embed_proj_dim":512)"),
            "65 c: \"word_embed_proj_dim\" is 512 and not the 1024 of \"hidden_size\": words of "
            "another width, as of opt-350m, are not supported");
  EXPECT_EQ(refusal("olmo", R"(,"clip_qkv":0.0)"), "65 c: \"clip_qkv\" is 0, expected more than 0");
  EXPECT_EQ(refusal("iquestcoder", R"(,"clip_qkv":8.0)"),
            "65 c: \"clip_qkv\": expected null, as its class does");
  EXPECT_EQ(refusal("seed_oss", R"(,"attention_out_bias":true)"),
            "65 c: \"mlp_bias\" is false and \"attention_out_bias\" true, which is not supported");
  EXPECT_EQ(refusal("apertus", R"(,"hidden_act":"silu")"),
            "65 c: \"hidden_act\" is \"silu\", expected \"xielu\"");
  EXPECT_EQ(refusal("nanochat", R"(,"attention_bias":true)"),
            "65 c: \"attention_bias\" is true, which is not supported");
  EXPECT_EQ(refusal("gptj", R"(,"rotary_dim":null)"),
            "65 c: \"rotary_dim\" is 0, expected 1 to the 256 channels of a head");
  EXPECT_EQ(refusal("falcon", R"(,"activation":"tanh")"),
            "65 c: \"activation\" is \"tanh\", expected gelu, gelu_new, relu or relu2");
  EXPECT_EQ(refusal("dots1", ""),
            "65 c: no \"norm_topk_prob\", which then is false, expected true");
  for (const char* const type : {"glm4_moe", "deepseek_v3"})
    EXPECT_EQ(refusal(type, R"(,"routed_scaling_factor":0.0)"),
              "65 c: \"routed_scaling_factor\" is 0, expected more than 0");
}

// Classes that drop embeddings at a rate of their own: we do at the one that we have, say so, and
// write theirs as it was.
TEST(DenseFamilies, EmbeddingsAreDroppedLikeTheRest) {
  const auto notes_of = [](const std::string& json) {
    return parse_hugging_face_config(json, "c").notes;
  };
  const std::string phi = R"({"model_type":"phi","resid_pdrop":0.5,"embd_pdrop":0.25})";
  EXPECT_EQ(notes_of(phi),
            std::vector<std::string>{
                "c: \"resid_pdrop\" is 0.5, at which training drops embeddings, too; "
                "transformers drops these at 0.25"});
  const ModelConfig model = model_of("phi", R"(,"resid_pdrop":0.5,"embd_pdrop":0.25)");
  EXPECT_EQ(model.hidden_dropout, 0.5);
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != text.npos;
  };
  const std::string again = hugging_face_config(model, DType::f32, phi);
  EXPECT_TRUE(has(again, R"("embd_pdrop":0.25)") && has(again, R"("resid_pdrop":0.5)")) << again;
  EXPECT_TRUE(has(hugging_face_config(model, DType::f32, ""), R"("embd_pdrop":0.5)"));
  const std::string gpt2 = R"({"model_type":"gpt2","resid_pdrop":0.5,"embd_pdrop":0.25})";
  EXPECT_EQ(notes_of(gpt2), notes_of(phi));
  EXPECT_TRUE(has(hugging_face_config(model_of("gpt2", R"(,"resid_pdrop":0.5)"), DType::f32, gpt2),
                  R"("embd_pdrop":0.25)"));
  // Where none is said, it is that of the class.
  EXPECT_TRUE(has(hugging_face_config(model_of("gpt2", R"(,"resid_pdrop":0.5)"), DType::f32,
                                      R"({"model_type":"gpt2","resid_pdrop":0.5})"),
                  R"("embd_pdrop":0.1)"));
  EXPECT_EQ(model_of("opt").hidden_dropout, 0.1);
  EXPECT_EQ(notes_of(R"({"model_type":"opt"})"),
            std::vector<std::string>{"c: \"dropout\" is 0.1, at which training drops embeddings, "
                                     "too; transformers drops these at 0"});
  for (const char* const json :
       {R"({"model_type":"gpt_neox","hidden_dropout":0.1})", R"({"model_type":"falcon"})",
        R"({"model_type":"gpt2"})", R"({"model_type":"gpt_bigcode"})", R"({"model_type":"biogpt"})",
        R"({"model_type":"starcoder2","residual_dropout":0.1,"embedding_dropout":0.1})"})
    EXPECT_EQ(notes_of(json), std::vector<std::string>()) << json;
  // It is Seed-OSS's own word, whose class takes 0.1 where it is not said.
  const ModelConfig seed = model_of("seed_oss");
  EXPECT_EQ(seed.attention_dropout, 0.1);
  EXPECT_TRUE(has(
      hugging_face_config(seed, DType::f32, R"({"model_type":"seed_oss","residual_dropout":0})"),
      R"("residual_dropout":0)"));
}

// Transformers' class has one flag's value for both, by either of two names.
TEST(DenseFamilies, InternLM3HasTwoNamesForItsBiases) {
  for (const char* const json :
       {R"(,"qkv_bias":true,"bias":true)", R"(,"attention_bias":true,"mlp_bias":true)",
        R"(,"qkv_bias":true,"bias":true,"attention_bias":false,"mlp_bias":false)"}) {
    const ModelConfig model = model_of("internlm3", json);
    EXPECT_TRUE(model.add_bias_linear && model.has_qkv_bias()) << json;
    EXPECT_NE(hugging_face_config(model, DType::f32, "").find(R"("qkv_bias":true,"bias":true)"),
              std::string::npos);
  }
  const ModelConfig of_makers = model_of("internlm3", R"(,"attention_bias":true)");
  EXPECT_TRUE(of_makers.add_qkv_bias && !of_makers.add_bias_linear);
  EXPECT_EQ(error_of([&] { hugging_face_config(of_makers, DType::f32, ""); }),
            "78 InternLM3 with biases of queries, keys and values alone: no model of transformers "
            "has that");
  EXPECT_EQ(refusal("internlm3", R"(,"mlp_bias":true)"),
            "65 c: \"qkv_bias\" is false and \"bias\" true, which is not supported");
}

// Gemma's and gpt-oss's classes make no masks without a window, though no layer has one.
TEST(DenseFamilies, AWindowIsWrittenWhereNoLayerHasOne) {
  for (const char* const type : {"gemma2", "gemma3_text", "gpt_oss"}) {
    const ModelConfig model = model_of(
        type, R"(,"num_hidden_layers":2,"layer_types":["full_attention","full_attention"])");
    EXPECT_TRUE(model.window_size.empty()) << type;
    const std::string written = hugging_face_config(model, DType::f32, "");
    EXPECT_EQ(written.find(R"("sliding_window":null)"), written.npos) << written;
    EXPECT_TRUE(parse_hugging_face_config(written, "again").model.window_size.empty()) << type;
  }
}

}  // namespace
}  // namespace mt
