#include "base/command.h"
#include "base/flag_list.h"
#include "retro/chunk_db.h"

namespace mt {

void ChunkDbOptions::add_content_to(CommandLine& cl) {
  cl.section("Token files");
  cl.option("--retro-gpt-data-path", &data_path, "[WEIGHT] PREFIX",
            "token files in DIR/data, and their shares of what an index is trained on");
  cl.option("--retro-gpt-split", &split, "PERCENT,PERCENT,PERCENT",
            "documents for training, from which is retrieved, validation and test, as 98,2,0");
  cl.option("--retro-gpt-tokenizer-type", &gpt.type, "TYPE",
            "that made the token files; default: what their manifests name",
            one_of({"GPT2BPETokenizer", "GPTSentencePieceTokenizer", "SentencePieceTokenizer",
                    "Llama2Tokenizer", "HuggingFaceTokenizer"}));
  cl.option("--retro-gpt-vocab-file", &gpt.vocab_file, "FILE",
            "its vocabulary; relative to DIR, as all of a project's files");
  cl.option("--retro-gpt-merge-file", &gpt.merge_file, "FILE", "its merges");
  cl.option("--retro-gpt-tokenizer-model", &gpt.model, "PATH", "its model");
  cl.section("Chunks");
  cl.option("--retro-gpt-chunk-length", &chunk_length, "N", "tokens of a chunk", at_least(1));
  cl.option("--retro-bert-tokenizer-type", &bert.type, "TYPE",
            "BERT's, for which a chunk must have words",
            one_of({"BertWordPieceLowerCase", "BertWordPieceCase"}));
  cl.option("--retro-bert-vocab-file", &bert.vocab_file, "FILE", "its vocabulary");
  cl.option("--retro-doc-block-size", &document_block, "N", "documents in a file", at_least(1));
  cl.option("--retro-index-ntrain", &index_samples, "N", "chunks that an index is to be trained on",
            at_least(1));
}

void ChunkDbOptions::add_to(CommandLine& cl) {
  cl.section("Project");
  cl.option("--retro-project-dir", &project, "DIR",
            "the project's folder, with the token files, or links to them, in DIR/data");
  cl.required("--retro-project-dir");
  cl.flag("--force", &force, "make anew what the project has with other settings");
  add_content_to(cl);
  for (const char* name : kRequired) cl.required(name);
  run.add_to(cl);
  cl.option("--retro-block-size", &chunk_block, "N", "chunks in a file of embeddings", at_least(1));
  imply(cl, "no chunk depends on it: it is of a step that follows",
        {{"--retro-bert-batch-size", any(kInteger)},
         {"--retro-bert-max-chunk-length", any(kInteger)},
         {"--retro-index-type", each({"faiss-base", "faiss-par-add"})},
         {"--retro-index-str", any(kText)},
         {"--retro-index-train-load-fraction", any(kNumber)},
         {"--retro-index-add-load-fraction", any(kNumber)},
         {"--no-retro-index-delete-training-embeddings"},
         {"--no-retro-index-delete-added-codes"},
         {"--retro-query-ef-search", any(kInteger)},
         {"--retro-query-nprobe", any(kInteger)},
         {"--retro-query-num-neighbors-query", any(kInteger)},
         {"--retro-query-num-neighbors-save", any(kInteger)}});
  refuse(cl, "the same command again checks all files by their hashes",
         {{"--retro-task-validate"}});
  cl.section("Speed and talk");
  cl.option("--threads,-j", &threads, "N", "worker threads; 0: one a core", at_least(0));
}

void ChunkDbSummary::Dataset::write(JsonWriter& json) const {
  // As Python writes a float.
  std::string number = JsonWriter().value(ratio).text();
  if (number.find_first_of(".e") == std::string::npos) number += ".0";
  json.begin_object()
      .key("ratio")
      .raw(number)
      .member("prefix", prefix)
      .member("n_docs", documents)
      .member("n_docs_train", train_documents)
      .member("n_chunks", chunks)
      .member("n_chunks_train", train)
      .member("n_chunks_invalid", invalid)
      .member("n_chunks_sampled", sampled)
      .end_object();
}

void ChunkDbSummary::write(JsonWriter& json) const {
  json.begin_object().member("schema", "mt-chunk-db/1").key("datasets").begin_array();
  for (const Dataset& dataset : datasets) dataset.write(json);
  json.end_array().member("made", made).member("found", found).end_object();
}

}  // namespace mt
