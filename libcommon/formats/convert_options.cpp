#include <filesystem>

#include "base/flag_list.h"
#include "formats/convert.h"
#include "formats/gguf/gguf_mixture.h"
#include "formats/hugging_face/weight_scheme.h"
#include "model/config/mtp_config.h"
#include "tensor/device.h"

namespace mt {

// What INPUT is, and what becomes of it.
static void add_input(ConvertOptions& o, CommandLine& cl) {
  cl.optional_positional("INPUT", &o.input,
                         "folder of checkpoints, or of one; or of Hugging Face's; or a GGUF file");
  cl.optional_positional("OUTPUT", &o.output, "folder to make");
  cl.section("Checkpoints");
  cl.option("--load-dir,--load", &o.load, "DIR", "INPUT");
  cl.option("--save-dir,--save", &o.save, "DIR", "OUTPUT");
  cl.option(
      "--loader", &o.loader, "FORMAT",
      "what INPUT must be: core or legacy (Megatron's models of today, or from before its core), "
      "or hf, llama_mistral or mixtral_hf (Hugging Face; a Llama of Meta's is llama_mistral), or "
      "gguf (llama.cpp); "
      "mcore and megatron are core and legacy; default what is found there",
      one_of({"core", "legacy", "hf", "llama_mistral", "mixtral_hf", "gguf", "mcore", "megatron"}));
  cl.option(
      "--saver", &o.saver, "FORMAT",
      "what OUTPUT becomes: core or mcore (Megatron), hf (Hugging Face), meta (a Llama as Meta's "
      "own code takes it), gguf (llama.cpp), trtllm (TensorRT-LLM's checkpoint, of a Llama, "
      "Mistral, Qwen 2 or GPT-2) or legacy (Megatron's models from before its core, for "
      "--use-legacy-models); mcore and megatron are core and legacy",
      one_of({"core", "hf", "meta", "gguf", "trtllm", "mcore", "legacy", "megatron"}));
  cl.option("--ckpt-format", &o.ckpt_format, "FORMAT", "Megatron's format of OUTPUT",
            one_of({"torch_dist", "torch", "torch_dcp"}));
  cl.flag("--no-common-pt", &o.no_common_file,
          "of OUTPUT in torch_dist: settings lie among the tensors instead of in common.pt, as "
          "Megatron-LM's main branch writes it, with a distributed optimizer's state in the form "
          "fully_reshardable, and core_v0.12 does not read it");
  cl.option("--ckpt-step", &o.source.iteration, "N",
            "iteration of INPUT; default the last one saved", at_least(1));
  cl.option("--prefix", &o.source.prefix, "NAME",
            "what names of the model's tensors begin with, where INPUT holds several models (an "
            "average, a teacher) in the state of a PyTorch run; what lies beside is passed over");
  cl.option("--mtp-num-layers", &o.source.further, "N",
            "layers that predict further tokens: those of a DeepSeek-V3 or GLM-4.5 of Hugging "
            "Face's, which has N of them, come along; 0 leaves those of INPUT behind; default: "
            "Megatron's come along, Hugging Face's do not",
            between(0, kMostFurther));
  cl.option("--model-type", &o.model_type, "TYPE",
            "what INPUT must be: BERT, or GPT for all others", one_of({"GPT", "BERT"}));
  cl.option("--true-vocab-size", &o.source.vocab_size, "N",
            "tokens before padding; default what INPUT says, else its padded number", at_least(1));
}

// How ranks will divide OUTPUT, and how modules are called there.
static void add_layout(ConvertOptions& o, CommandLine& cl) {
  cl.option("--make-vocab-size-divisible-by", &o.make_vocab_size_divisible_by, "N",
            "the vocabulary is padded anew, to a multiple of this and of the tensor parallel size",
            between(1, 1 << 20));
  cl.option(
      "--target-tensor-parallel-size", &o.target_tensor_parallel, "N",
      "ranks that will divide each layer of OUTPUT: Megatron's vocabulary is padded for them; "
      "of Meta's format and TensorRT-LLM's, their files",
      between(1, 4096));
  cl.option("--target-pipeline-parallel-size", &o.target_pipeline_parallel, "N",
            "stages that will divide the layers of OUTPUT", between(1, 4096));
  cl.option("--target-encoder-pipeline-parallel-size", &o.target_encoder_pipeline_parallel, "N",
            "stages of OUTPUT for the layers of a T5's encoder, in front of those of its decoder",
            between(0, 4096));
  cl.option("--target-expert-parallel-size", &o.target_expert_parallel, "N",
            "ranks that will share out the experts of OUTPUT", between(1, 4096));
  cl.option("--num-layers-per-virtual-pipeline-stage", &o.pipeline.layers_per_virtual_stage, "N",
            "give each stage of OUTPUT several chunks, of so many layers", at_least(1));
  cl.option("--num-virtual-stages-per-pipeline-rank", &o.pipeline.virtual_stages_per_rank, "N",
            "give each stage of OUTPUT so many chunks", at_least(1));
  cl.option("--decoder-first-pipeline-num-layers", &o.pipeline.first_layers, "N",
            "layers of the first stage of OUTPUT", at_least(1));
  cl.option("--decoder-last-pipeline-num-layers", &o.pipeline.last_layers, "N",
            "layers of the last stage of OUTPUT", at_least(1));
  cl.flag("--account-for-embedding-in-pipeline-split", &o.pipeline.account_for_embedding,
          "the first stage of OUTPUT has one layer fewer than the others");
  cl.flag("--account-for-loss-in-pipeline-split", &o.pipeline.account_for_loss,
          "the last stage of OUTPUT has one layer fewer than the others");
  cl.option("--pipeline-model-parallel-layout", &o.pipeline.layout, "STAGES",
            "what each stage of OUTPUT holds, of embedding E, layers t and loss L: "
            "\"Et*3|(tt|)*4tL\"");
  cl.option("--saver-transformer-impl", &o.transformer_impl, "NAME",
            "how the torch format, and for experts torch_dist too, names norms: as in models of "
            "transformer_engine, or of the local specification; default transformer_engine, and "
            "local with --saver legacy, which writes no other",
            one_of({"transformer_engine", "local"}));
  cl.flag("--moe-grouped-gemm", &o.moe_grouped_gemm,
          "OUTPUT's experts are Transformer Engine's grouped ones, as Megatron-LM's are with this "
          "flag: in the torch format they have other names");
}

// Layers that OUTPUT has and INPUT has not.
static void add_new_layers(ConvertOptions& o, CommandLine& cl) {
  cl.option(
      "--upcycle", &o.upcycle, "N",
      "make each MLP N experts, all alike, and routers, drawn by --seed: it computes the same "
      "until it is trained",
      between(1, 4096));
  cl.option("--moe-router-topk", &o.moe_router_topk, "N",
            "with --upcycle, experts that each token goes to", at_least(1));
  cl.option(
      "--hybrid-layer-pattern", &o.hybrid_layer_pattern, "LETTERS",
      "make a GPT a hybrid of these layers: its attention becomes each * in turn (+, if it is "
      "latent), its MLPs each - or its experts each E, and mixers, M, are drawn by --seed");
  cl.option("--mamba-head-dim", &o.mixers.mamba_head_dim, "N", "of mixers: channels of a head",
            at_least(1));
  cl.option("--mamba-state-dim", &o.mixers.mamba_state_dim, "N",
            "of mixers: numbers that a head keeps for each of its channels", at_least(1));
  cl.option("--mamba-num-groups", &o.mixers.mamba_num_groups, "N",
            "of mixers: groups of heads that have what maps to states and back in common",
            at_least(1));
  cl.flag("--hybrid-to-gpt", &o.hybrid_to_gpt,
          "make a hybrid a GPT, whose every attention has an MLP or experts behind it");
  cl.option("--vision-tower", &o.vision_tower, "DIR",
            "make a GPT such as Llama the language model of a LLaVA, whose tower of images lies in "
            "DIR (a CLIP, a SigLIP or a RADIO, or an InternViT, which makes it an InternVL), and "
            "whose projector is drawn by --seed");
  cl.option("--image-token", &o.join.image_token, "WORD",
            "with --vision-tower, the token of INPUT's tokenizer that stands for an image; default "
            "<image>, and <IMG_CONTEXT> of an InternViT");
  cl.option("--vision-feature-layer", &o.join.feature_layer, "N",
            "with --vision-tower, the layer whose hidden states are taken: so many run, or, below "
            "0, all but so many less one; default -2, and -1 of an InternViT or a RADIO");
  cl.flag("--pixel-shuffle", &o.join.pixel_shuffle,
          "with --vision-tower, four neighbouring patches become one token, as those of an "
          "InternViT do in any case");
  cl.option("--tokenizer-model", &o.tokenizer_model, "FILE",
            "of INPUT, whose tokenizer goes along without being named");
}

// In what numbers OUTPUT's weights are.
static void add_numbers(ConvertOptions& o, CommandLine& cl) {
  std::vector<std::string> types = gguf_mixtures();
  std::string of_gguf;
  for (const std::string& type : types) of_gguf += concat(of_gguf.empty() ? "" : ", ", type);
  types.insert(types.begin(), {"fp32", "fp16", "bf16"});
  cl.option("--dtype", &o.dtype, "TYPE",
            concat("of OUTPUT's weights: fp32, fp16 or bf16, and in GGUF files llama.cpp's ",
                   of_gguf, "; default as stored"),
            one_of(std::move(types)));
  cl.flag("--bf16", &o.bf16, "--dtype bf16");
  cl.flag("--fp16", &o.fp16, "--dtype fp16");
  std::string formats;
  for (const std::string& format : weight_formats())
    formats += concat(formats.empty() ? "" : ", ", format);
  cl.option("--quantize", &o.quantize, "FORMAT",
            concat("of the matrices of linear layers in Hugging Face's folder, for transformers "
                   "and vLLM, ",
                   formats,
                   ": eight bits a number, with a scale of each row, or of each 128 x 128; or "
                   "four, with one of each 128 of a row, or 16, or 32; fp8 and int4_awq in "
                   "TensorRT-LLM's checkpoints, too; GGUF files have --dtype for that"),
            one_of(weight_formats()));
  cl.option("--quantize-layout", &o.quantize_layout, "NAME",
            "of that folder: compressed-tensors' (of fp8_block, DeepSeek's), or, of fp8 and nvfp4 "
            "with --calib, ModelOpt's",
            one_of({"compressed-tensors", "modelopt"}));
}

// By which texts that is decided, and judged.
static void add_calibration(ConvertOptions& o, CommandLine& cl) {
  cl.option("--calib", &o.calibration.text, "FILE",
            "of --quantize int8_sq, int4_awq and w4a8_awq, plain text, of which the model says how "
            "much each channel of its layers' inputs matters; of fp8 and nvfp4, by which inputs "
            "have scales that stand in the folder; of a GGUF file in blocks, by which an "
            "importance matrix is made");
  cl.option("--imatrix", &o.imatrix, "FILE",
            "of a GGUF file in blocks, an importance matrix that llama.cpp's llama-imatrix has "
            "written, GGUF or .dat: how much errors in each column count");
  cl.option("--cost-text", &o.cost_text, "FILE",
            "plain text, of which is told how well OUTPUT reads it beside INPUT, and how far off "
            "each layer is, in a table or in --json's object");
  cl.option("--calib-size", &o.calibration.size, "N",
            "sequences at most of the text of --calib, and of --cost-text", at_least(1));
  cl.option("--calib-seq", &o.calibration.seq_length, "N",
            "tokens of each of them, at most the model's positions", at_least(1));
  cl.option("--shard-size", &o.shard_megabytes, "N", "most megabytes of a file of Hugging Face's",
            at_least(1));
  cl.flag("--with-optimizer", &o.with_optimizer, "convert the optimizer's state too");
}

void ConvertOptions::add_to(CommandLine& cl) {
  add_input(*this, cl);
  add_layout(*this, cl);
  add_new_layers(*this, cl);
  add_numbers(*this, cl);
  add_calibration(*this, cl);
  cl.section("How it is done");
  cl.flag("--mock", &mock,
          "draw initial weights for the config.json in INPUT, to try layouts, sizes and speeds");
  cl.option("--seed", &seed, "N",
            "of --mock, --upcycle, --hybrid-layer-pattern and --vision-tower");
  cl.flag("--verify", &verify,
          "read OUTPUT back and compare every element, before it has its name");
  cl.flag("--force", &force, "replace the files of a model in OUTPUT; others stay");
  cl.option("--threads,-j", &threads, "N", "worker threads; 0: one a core", at_least(0));
  cl.gpu_version(device::version);
  cl.option("--device", &compute.device_name, "NAME",
            "what reads the texts of --calib and --cost-text, in fp32: cpu, cuda, or auto: cuda "
            "where there is a GPU that serves, with room for the model",
            one_of({"auto", "cpu", "cuda"}));
  imply(cl, "INPUT's names are recognised, whatever computed the model",
        {{"--loader-transformer-impl", each({"transformer_engine", "local"})},
         {"--megatron-path", any(kText)}});
  imply(cl, "INPUT is read as it is written: nothing queues",
        {{"--max-queue-size", any(kInteger)}});
  imply(cl, "the sizes stand in config.json or params.json", {{"--model-size", any(kText)}});
  imply(cl, "the format is recognised by content", {{"--checkpoint-type", each({"hf", "meta"})}});
  cl.before_print([this, &cl] {
    const auto check = [&](const char* flag, const char* of, bool known) {
      if (!known && cl.given(flag)) fail(Exit::usage, flag, ": is of ", of);
    };
    check("--quantize-layout", "--quantize", !quantize.empty());
    const bool text = !calibration.text.empty() || !cost_text.empty();
    check("--calib-size", "--calib and --cost-text", text);
    check("--calib-seq", "--calib and --cost-text", text);
    // MT_DEVICE may be there for other programs.
    check("--device", "--calib and --cost-text", text || cl.origin("--device") != "command line");
  });
}

// Refuses what says how OUTPUT lies where the saver has no such thing.
static void check_of_saver(const ConvertOptions& o) {
  const bool core = o.saver == "core", megatron = core || o.saver == "legacy";
  const auto check = [&](const char* flag, bool known, const auto& value, const auto& usual) {
    if (!known && value != usual)
      fail(Exit::usage, flag, ' ', value, ": means nothing with --saver ", o.saver);
  };
  check("--ckpt-format", core, o.ckpt_format, "torch_dist");
  const bool trtllm = o.saver == "trtllm";
  check("--target-tensor-parallel-size", megatron || trtllm || o.saver == "meta",
        o.target_tensor_parallel, 1);
  check("--target-pipeline-parallel-size", megatron, o.target_pipeline_parallel, 1);
  check("--target-encoder-pipeline-parallel-size", core, o.target_encoder_pipeline_parallel, 0);
  check("--target-expert-parallel-size", core, o.target_expert_parallel, 1);
  check("--saver-transformer-impl", core, o.transformer_impl,
        o.saver == "legacy" ? "local" : "transformer_engine");
  check("--quantize", o.saver == "hf" || trtllm, o.quantize, "");
  check("--quantize-layout", o.saver == "hf", o.quantize_layout, ConvertOptions().quantize_layout);
  if (trtllm && (o.verify || !o.cost_text.empty()))
    fail(Exit::usage, o.verify ? "--verify" : "--cost-text",
         ": TensorRT-LLM's checkpoints are written, and not read");
  check("--shard-size", o.saver == "hf", o.shard_megabytes, ConvertOptions().shard_megabytes);
  const auto check_given = [&](const char* flag, bool given, bool known = false) {
    if (!core && !known && given) fail(Exit::usage, flag, ": means nothing with --saver ", o.saver);
  };
  const PipelineOptions& stages = o.pipeline;
  check_given("--make-vocab-size-divisible-by", o.make_vocab_size_divisible_by.has_value(),
              megatron);
  check_given("--num-layers-per-virtual-pipeline-stage",
              stages.layers_per_virtual_stage.has_value(), megatron);
  check_given("--num-virtual-stages-per-pipeline-rank", stages.virtual_stages_per_rank.has_value(),
              megatron);
  check_given("--decoder-first-pipeline-num-layers", stages.first_layers.has_value());
  check_given("--decoder-last-pipeline-num-layers", stages.last_layers.has_value());
  check_given("--account-for-embedding-in-pipeline-split", stages.account_for_embedding);
  check_given("--account-for-loss-in-pipeline-split", stages.account_for_loss);
  check_given("--pipeline-model-parallel-layout", !stages.layout.empty());
  check_given("--moe-grouped-gemm", o.moe_grouped_gemm);
  if (o.moe_grouped_gemm && o.transformer_impl == "local")
    fail(Exit::usage,
         "--moe-grouped-gemm: without Transformer Engine's modules it names GroupedMLP's experts, "
         "which are read only; not with --saver-transformer-impl local");
  if (o.moe_grouped_gemm && o.ckpt_format == "torch_dcp")
    fail(Exit::usage, "--moe-grouped-gemm: not with --ckpt-format torch_dcp");
}

// GGUF's blocks of 8 bits are made by no importance.
static void check_importance(const ConvertOptions& o) {
  const bool blocks = o.saver == "gguf" && gguf_mixture(o.dtype) != nullptr && o.dtype != "q8_0";
  if (!o.imatrix.empty() && !blocks)
    fail(Exit::usage, "--imatrix: is of --saver gguf with --dtype q2_k to q6_k, q4_0 to q5_1");
  if (!o.imatrix.empty() && !o.calibration.text.empty())
    fail(Exit::usage, "--imatrix and --calib exclude each other");
  if (!o.calibration.text.empty() && o.quantize.empty() && !blocks)
    fail(Exit::usage,
         "--calib: is of --quantize fp8, int8_sq, int4_awq, w4a8_awq and nvfp4, and of --saver "
         "gguf with --dtype q2_k to q6_k, q4_0 to q5_1");
}

static void check_calibration(const ConvertOptions& o) {
  check_importance(o);
  if (o.quantize.empty() && o.quantize_layout != "modelopt") return;
  const WeightFormat format = weight_format(o.quantize);
  const CalibrationUse use = calibration_use(format);
  const bool given = !o.calibration.text.empty(), modelopt = o.quantize_layout == "modelopt";
  if (modelopt && !has_modelopt_folder(format))
    fail(Exit::usage, "--quantize-layout modelopt: is of --quantize fp8 and nvfp4");
  if (o.saver == "trtllm" && format != WeightFormat::fp8 && format != WeightFormat::int4_awq)
    fail(Exit::usage, "--quantize ", o.quantize, ": --saver trtllm writes fp8 and int4_awq");
  if (o.saver == "trtllm" && format == WeightFormat::fp8 && !given)
    fail(Exit::usage, "--quantize fp8: needs a text for TensorRT-LLM's; see --calib");
  if ((use == CalibrationUse::must || modelopt) && !given)
    fail(Exit::usage, "--quantize ", o.quantize, ": needs a text",
         modelopt ? " for ModelOpt's" : "", "; see --calib");
  if (use == CalibrationUse::none && given)
    fail(Exit::usage, "--calib: is of --quantize fp8, int8_sq, int4_awq, w4a8_awq and nvfp4");
}

static void take_positional(const char* flag, const std::string& positional, std::string& option) {
  if (positional.empty()) return;
  if (!option.empty())
    fail(Exit::usage, flag, ' ', option, ": not with ", positional, ", which says the same");
  option = positional;
}

// As Megatron's converter is given it: only what lies beside the weights is the model's.
static void check_tokenizer(const ConvertOptions& o) {
  if (o.tokenizer_model.empty()) return;
  const std::filesystem::path file = o.tokenizer_model;
  std::error_code none;
  if (!std::filesystem::exists(file, none))
    fail(Exit::no_input, "--tokenizer-model ", o.tokenizer_model, ": there is no such file");
  const auto parent = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::equivalent(file, o.load, none) &&
      !std::filesystem::equivalent(parent, o.load, none))
    fail(Exit::usage, "--tokenizer-model ", o.tokenizer_model, ": is not in ", o.load,
         ", whose own tokenizer goes along");
}

static void check_translation(const ConvertOptions& o) {
  const MambaConfig usual;
  const char* const option = o.hybrid_to_gpt ? "--hybrid-to-gpt" : "--hybrid-layer-pattern";
  for (const auto& [name, given] :
       {std::pair("--mamba-head-dim", o.mixers.mamba_head_dim != usual.mamba_head_dim),
        std::pair("--mamba-state-dim", o.mixers.mamba_state_dim != usual.mamba_state_dim),
        std::pair("--mamba-num-groups", o.mixers.mamba_num_groups != usual.mamba_num_groups)})
    if (given && o.hybrid_layer_pattern.empty())
      fail(Exit::usage, name, ": is of --hybrid-layer-pattern");
  if (!o.translates()) return;
  if (o.hybrid_to_gpt && !o.hybrid_layer_pattern.empty())
    fail(Exit::usage, "--hybrid-layer-pattern and --hybrid-to-gpt exclude each other");
  if (o.upcycle > 0) fail(Exit::usage, option, ": not with --upcycle");
  if (o.with_optimizer) fail(Exit::usage, "--with-optimizer: not with ", option);
  if (o.hybrid_layer_pattern.find_first_of("|/") != std::string::npos)
    fail(Exit::usage, option, ' ', o.hybrid_layer_pattern,
         ": expected layers alone; see --target-pipeline-parallel-size");
}

static void check_join(const ConvertOptions& o) {
  for (const auto& [says, flag] : {std::pair(!o.join.image_token.empty(), "--image-token"),
                                   {o.join.feature_layer.has_value(), "--vision-feature-layer"},
                                   {o.join.pixel_shuffle, "--pixel-shuffle"}})
    if (says && o.vision_tower.empty()) fail(Exit::usage, flag, ": is of --vision-tower");
  if (o.vision_tower.empty()) return;
  for (const auto& [says, flag] : {std::pair(o.mock, "--mock"),
                                   {o.upcycle > 0, "--upcycle"},
                                   {o.hybrid_to_gpt, "--hybrid-to-gpt"},
                                   {!o.hybrid_layer_pattern.empty(), "--hybrid-layer-pattern"},
                                   {o.with_optimizer, "--with-optimizer"}})
    if (says) fail(Exit::usage, "--vision-tower: not with ", flag);
}

void ConvertOptions::complete() {
  if (loader == "mcore" || loader == "megatron") loader = loader == "mcore" ? "core" : "legacy";
  if (saver == "mcore" || saver == "megatron") saver = saver == "mcore" ? "core" : "legacy";
  if (transformer_impl.empty())
    transformer_impl = saver == "legacy" ? "local" : "transformer_engine";
  check_of_saver(*this);
  take_positional("--load-dir", input, load);
  take_positional("--save-dir", output, save);
  if (load.empty()) fail(Exit::usage, "INPUT: required; see --help");
  if (save.empty()) fail(Exit::usage, "OUTPUT: required; see --help");
  check_tokenizer(*this);
  if (save == "-") fail(Exit::usage, "OUTPUT -: becomes a folder, which stdout cannot be");
  if (bf16 + fp16 + !dtype.empty() > 1)
    fail(Exit::usage, "--bf16, --fp16 and --dtype exclude each other");
  if (mock) source.mock = seed;
  const bool draws = mock || upcycle > 0 || !hybrid_layer_pattern.empty() || !vision_tower.empty();
  if (!draws && seed != ConvertOptions().seed)
    fail(Exit::usage, "--seed: is of --mock, --upcycle, --hybrid-layer-pattern and --vision-tower");
  check_translation(*this);
  check_join(*this);
  check_calibration(*this);
  if (upcycle == 0 && moe_router_topk != ConvertOptions().moe_router_topk)
    fail(Exit::usage, "--moe-router-topk: is of --upcycle");
  if (upcycle > 0 && with_optimizer)
    fail(Exit::usage, "--with-optimizer: not with --upcycle, whose routers have no state");
  if (mock && (source.vocab_size || source.iteration))
    fail(Exit::usage, source.vocab_size ? "--true-vocab-size" : "--ckpt-step",
         ": not with --mock, which knows of INPUT's config.json alone");
  source.check_while_reading = true;
  if (bf16 || fp16) dtype = bf16 ? "bf16" : "fp16";
  if (with_optimizer && saver != "core")
    fail(Exit::usage, "--with-optimizer: ",
         saver == "hf"       ? "Hugging Face's format"
         : saver == "meta"   ? "Meta's format"
         : saver == "trtllm" ? "TensorRT-LLM's format"
         : saver == "legacy" ? "a checkpoint that convert.py's legacy saver writes"
                             : "GGUF",
         " has no place for it");
  if (no_common_file && (saver != "core" || ckpt_format != "torch_dist"))
    fail(Exit::usage, "--no-common-pt: torch_dist alone has one; see --saver and --ckpt-format");
  if (gguf_mixture(dtype) != nullptr && saver != "gguf")
    fail(Exit::usage, "--dtype ", dtype, ": is a type of GGUF files; see --saver");
  source.with_optimizer = with_optimizer;
  calibration.device_was_given = compute.device_name != "auto";
  if (!calibration.text.empty() || !cost_text.empty()) compute.complete(true);
  calibration.device = compute.device();
}

}  // namespace mt
