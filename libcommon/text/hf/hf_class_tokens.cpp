#include <algorithm>

#include "base/error.h"
#include "text/hf/hf_config.h"

namespace mt {
namespace {

// The languages of FLORES and of WMT that NLLB and mBART have tokens for.
constexpr std::string_view kMBart =
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR "
    "lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN";
constexpr std::string_view kMBart50 =
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL "
    "ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";
constexpr std::string_view kNllb =
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi "
    "apc_Arab arb_Arab ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn "
    "azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva "
    "bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt "
    "ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn "
    "fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn "
    "guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn "
    "kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn "
    "kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn "
    "lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn "
    "mkd_Cyrl plt_Latn mlt_Latn mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr "
    "nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn "
    "ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh "
    "slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn "
    "srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml tat_Cyrl "
    "tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn "
    "urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn "
    "yue_Hant zho_Hans zho_Hant zul_Latn";

HfRoleToken token_of(std::string_view text) {
  return {{.content = std::string(text), .special = true}, false, false};
}

class ClassTokens {
 public:
  ClassTokens(HfConfig& config, int version) : config_(config), version_(version) {}

  // The special tokens that a class has beyond its roles.
  void add() {
    const std::string_view name = config_.tokenizer_class->name;
    if (name == "CodeLlamaTokenizer") return add_infills();
    if ((name == "T5Tokenizer" || name == "MT5Tokenizer") && version_ < 5) return add_extra_ids();
    // In version 5 a list that the configuration has stands for that of the class.
    const bool is_default = !config_.has_list_key;
    if (name == "CamembertTokenizer" && is_default && !config_.has_list)
      add_behind({"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"});
    if (name == "XLNetTokenizer" && is_default && !config_.has_list) add_behind({"<eop>", "<eod>"});
    if (name == "NllbTokenizer" && !config_.has_list) add_behind(words(kNllb));
    if (name == "SplinterTokenizer" && version_ < 5) add_behind({config_.question_token});
    if (version_ >= 5 && !is_default) return;
    if (name == "XGLMTokenizer") add_behind(numbered("<madeupword", 0, 7));
    if (name == "MBartTokenizer") put_in_front(words(kMBart));
    if (name == "MBart50Tokenizer") {
      add_behind(words(kMBart));
      add_behind(words(kMBart50));
    }
    if (name == "PegasusTokenizer") add_pegasus();
  }

 private:
  static std::vector<std::string> words(std::string_view text) {
    std::vector<std::string> all;
    for (std::size_t end; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
      end = std::min(text.find(' '), text.size());
      all.emplace_back(text.substr(0, end));
    }
    return all;
  }

  // "NAMEn>" from `first` to `end`.
  static std::vector<std::string> numbered(std::string_view name, std::size_t first,
                                           std::size_t end) {
    std::vector<std::string> all;
    for (std::size_t i = first; i < end; ++i) all.push_back(concat(name, i, ">"));
    return all;
  }

  // Those that are not listed, behind those that are.
  void add_behind(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      if (text.empty() || is_listed(text)) continue;
      config_.more_special.insert(listed_end(), token_of(text));
      ++config_.num_listed;
    }
  }

  // All of them, before what else is listed.
  void put_in_front(const std::vector<std::string>& texts) {
    const auto begin = listed_begin();
    std::vector<HfRoleToken> tokens;
    for (const std::string& text : texts) tokens.push_back(token_of(text));
    for (auto at = begin; at != listed_end(); ++at)
      if (std::ranges::find(texts, at->token.content) == texts.end()) tokens.push_back(*at);
    const auto place = config_.more_special.erase(begin, listed_end());
    config_.more_special.insert(place, tokens.begin(), tokens.end());
    config_.num_listed = tokens.size();
  }

  bool is_listed(std::string_view text) {
    return std::any_of(listed_begin(), listed_end(),
                       [&](const HfRoleToken& token) { return token.token.content == text; });
  }

  // They are the first of all in version 4, and the last in version 5.
  std::vector<HfRoleToken>::iterator listed_begin() {
    auto& all = config_.more_special;
    return version_ < 5 ? all.begin() : all.end() - static_cast<std::ptrdiff_t>(num_listed());
  }
  std::vector<HfRoleToken>::iterator listed_end() {
    return listed_begin() + static_cast<std::ptrdiff_t>(num_listed());
  }
  std::size_t num_listed() const {
    return std::min(config_.num_listed, config_.more_special.size());
  }

  // Version 5 has one more, and puts them in front.
  void add_infills() {
    std::vector<HfRoleToken>& all = config_.more_special;
    const std::size_t first = version_ < 5 ? all.size() : 0;
    std::vector<HfRoleToken> infills;
    for (std::size_t i = 0; i < (version_ < 5 ? 4 : config_.infills.size()); ++i)
      if (!config_.infills[i].empty()) infills.push_back(token_of(config_.infills[i]));
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(first), infills.begin(), infills.end());
  }

  void add_extra_ids() {
    const auto is_extra = [](const HfRoleToken& other) {
      return other.token.content.find("<extra_id_") != std::string::npos;
    };
    if (std::ranges::any_of(config_.more_special, is_extra)) return;
    for (int i = 0; i < config_.extra_ids; ++i)
      config_.more_special.push_back(token_of(concat("<extra_id_", i, ">")));
  }

  // So many, that all special tokens are `offset`.  In version 5 they stand for those listed.
  void add_pegasus() {
    const bool has_sent = is_listed(config_.mask_token_sent);
    if (version_ >= 5) {
      config_.more_special.erase(listed_begin(), listed_end());
      config_.num_listed = 0;
    }
    if (version_ >= 5 || !config_.has_list) {
      if (!has_sent) add_behind({config_.mask_token_sent});
      return add_behind(numbered("<unk_", 2, config_.offset));
    }
    if (!has_sent && !config_.mask_token_sent.empty()) put_in_front({config_.mask_token_sent});
    if (config_.num_listed + 1 < config_.offset)
      add_behind(numbered("<unk_", config_.num_listed, config_.offset - 1));
  }

  HfConfig& config_;
  int version_;
};

// The flags that a class gives to tokens of which only the text is said.
void flag_roles(HfConfig& config, int version) {
  using enum HfClass::Effect;
  const HfClass& kind = *config.tokenizer_class;
  constexpr std::size_t kMask = 6;
  static_assert(kHfRoles[kMask] == "mask_token");
  for (std::size_t i = 0; i < config.roles.size(); ++i) {
    auto& role = config.roles[i];
    if (!role || !*role || (*role)->has_flags) continue;
    const bool left = i == kMask && kind.has(version < 5 ? mask_left : mask_left5);
    if (left) {
      (*role)->token.lstrip = true;
      (*role)->token.normalized = kind.has(mask_normal);
    }
    (*role)->has_flags = left || (version < 5 && (kind.flagged >> i & 1) != 0);
  }
}

}  // namespace

void fill_hf_roles(HfConfig& config, int version) {
  const HfClass::Roles roles = hf_class_roles(*config.tokenizer_class, version);
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (!config.roles[i] && !roles[i].empty()) config.roles[i] = token_of(roles[i]);
  ClassTokens(config, version).add();
  flag_roles(config, version);
}

}  // namespace mt
