// The content of a SentencePiece `.model` file: a protobuf, of which these fields are used
// (https://github.com/google/sentencepiece, src/sentencepiece_model.proto):
//   ModelProto      1 pieces, repeated   2 trainer_spec   3 normalizer_spec   5 denormalizer_spec
//   SentencePiece   1 piece (text)   2 score (f32)   3 type
//   TrainerSpec     3 model_type: 1 unigram, 2 BPE, 3 words, 4 characters
//                   24 treat_whitespace_as_suffix   35 byte_fallback   44 unk_surface
//                   46, 47, 48 bos_, eos_, pad_piece
//   NormalizerSpec  2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces
//                   5 escape_whitespaces
// Others are passed over.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct SentencePieceModel {
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };
  // A model of characters has each as a piece, as a BPE that merges none.
  enum class Algorithm { unigram = 1, bpe = 2, words = 3, characters = 4 };
  struct Normalizer {
    std::string charsmap;
    bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  };

  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool whitespace_as_suffix = false, byte_fallback = false;
  std::string unk_surface = " \xE2\x81\x87 ";  // what an unknown piece decodes to
  Normalizer normalizer, denormalizer;

  // Ids; -1 where there is no such piece.
  std::int32_t unk = -1, bos = -1, eos = -1, pad = -1;
  std::array<std::int32_t, 256> byte_ids{};  // with byte_fallback
};

// The byte that a piece of type byte stands for: "<0x41>"; nothing for other texts.
std::optional<unsigned char> byte_of_piece(std::string_view text);
std::string piece_of_byte(unsigned char byte);

// Throws Exit::bad_data, with `path`, for what is malformed, cut or contradicts itself.
SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& path);

// The content of a file that is read as this model, whose special pieces are among its pieces.
std::string sentencepiece_model_content(const SentencePieceModel& model);

}  // namespace mt
