// Flags of models other than a dense GPT.
#include "base/flag_list.h"
#include "train/options/megatron_flags.h"

namespace mt {

static void add_mixture_flags(CommandLine& cl) {
  refuse(cl, "no model of experts here has it",
         {{"--moe-extended-tp"}, {"--moe-per-layer-logging"}});
  refuse(cl, "use mt-convert --upcycle", {{"--moe-use-upcycling"}});
  refuse(cl, "use --recompute-granularity full", {{"--moe-layer-recompute"}});
}

static void add_implied_mixture_flags(CommandLine& cl) {
  imply(cl, "how experts are computed, and tokens come to them, changes no number",
        {{"--moe-enable-deepep"},
         {"--moe-grouped-gemm"},
         {"--moe-permute-fusion"},
         {"--moe-use-legacy-grouped-gemm"}});
}

static void add_decoder_flags(CommandLine& cl) {
  refuse(cl, "all layers of a model are alike",
         {{"--heterogeneous-layers-config-path"}, {"--heterogeneous-layers-config-encoded-json"}});
}

static void add_encoder_flags(CommandLine& cl) {
  refuse_others(cl, "one pipeline goes over encoder and decoder",
                {{"--encoder-tensor-model-parallel-size", only(0)},
                 {"--encoder-pipeline-model-parallel-size", only(0)},
                 {"--pipeline-model-parallel-split-rank"}});
  refuse(cl, "a run writes no embeddings",
         {{"--bert-embedder-type", only("megatron")}, {"--output-bert-embeddings"}});
  refuse(cl, "all samples are taken", {{"--sample-rate", only(1.)}});
}

static void add_retrieval_flags(CommandLine& cl) {
  refuse(cl, "a run has as many samples as neighbours are known for",
         {{"--retro-cyclic-train-iters"}});
  if (!declares(cl, "--retro-attention-gate"))
    refuse(cl, "Megatron-Core's Retro has no gate", {{"--retro-attention-gate", only(1.)}});
  if (!declares(cl, "--biencoder-projection-dim"))
    refuse(cl, "models of two towers are trained by mt-finetune ict and orqa",
           {{"--ict-head-size"},
            {"--ict-load"},
            {"--bert-load"},
            {"--biencoder-projection-dim", only(0)},
            {"--biencoder-shared-query-context-model"},
            {"--retriever-report-topk-accuracies"},
            {"--retriever-score-scaling"}});
  if (!declares(cl, "--titles-data-path"))
    refuse(cl, "what is retrieved by sentences is learnt by mt-finetune ict",
           {{"--titles-data-path"}, {"--query-in-block-prob", only(0.1)}, {"--use-one-sent-docs"}});
  refuse(cl, "a run that trains makes no vectors of evidence",
         {{"--evidence-data-path"},
          {"--block-data-path"},
          {"--embedding-path"},
          {"--indexer-batch-size", only(128)},
          {"--indexer-log-interval", only(1000)}});
  if (!declares(cl, "--retriever-seq-length"))
    refuse(cl, "samples have --seq-length tokens; the option is of mt-finetune orqa",
           {{"--retriever-seq-length", only(256)}});
}

static void add_vision_flags(CommandLine& cl) {
  if (!declares(cl, "--vision-pretraining"))
    refuse(cl, "models of images are trained by mt-pretrain",
           {{"--vision-pretraining"},
            {"--vision-pretraining-type", only("classify")},
            {"--vision-backbone-type", only("vit")},
            {"--num-classes", only(1000)},
            {"--img-h", only(224)},
            {"--img-w", only(224)},
            {"--num-channels", only(3)},
            {"--patch-dim", only(16)},
            {"--classes-fraction", only(1.)},
            {"--data-per-class-fraction", only(1.)},
            {"--mask-type", only("random")},
            {"--mask-factor", only(1.)},
            {"--iter-per-epoch", only(1250)},
            {"--dino-local-img-size", only(96)},
            {"--dino-local-crops-number", only(10)},
            {"--dino-head-hidden-size", only(2048)},
            {"--dino-bottleneck-size", only(256)},
            {"--dino-freeze-last-layer", only(1.)},
            {"--dino-norm-last-layer"},
            {"--dino-warmup-teacher-temp", only(0.04)},
            {"--dino-teacher-temp", only(0.07)},
            {"--dino-warmup-teacher-temp-epochs", only(30)}});
  refuse(cl, "of models of images there is the ViT",
         {{"--swin-backbone-type", only("tiny")}, {"--mrope-section"}});
}

// mt-finetune's tasks have one of that name.
static void add_head_flags(CommandLine& cl) {
  if (!declares(cl, "--head-lr-mult"))
    refuse(cl, "it is of the heads of tasks, see mt-finetune(1)", {{"--head-lr-mult", only(1.)}});
}

void add_other_model_flags(CommandLine& cl) {
  add_mixture_flags(cl);
  add_implied_mixture_flags(cl);
  add_decoder_flags(cl);
  add_encoder_flags(cl);
  add_retrieval_flags(cl);
  add_vision_flags(cl);
  add_head_flags(cl);
}

}  // namespace mt
