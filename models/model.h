/* model.h - a model to train: its configuration, its program of four graphs, and the tensors
 * that a training loop writes and reads. Models only build graphs: no memory, no device calls. */
#ifndef TIDE_MODEL_H
#define TIDE_MODEL_H
#include "runtime/tide.h"
#include "kernels/ops.h"

/* The default is the type of the parameters, and f32 where micro-steps add up. */
typedef enum ModelGrads { GRADS_DEFAULT, GRADS_F32, GRADS_NARROW } ModelGrads;

/* How rotary positions are stretched beyond the length that a model was trained with. */
typedef enum RopeScheme { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_SCHEME_COUNT } RopeScheme;
typedef struct Rope {
    RopeScheme scheme;
    double     theta;     /* base of the wavelengths                                                  */
    double     factor;    /* linear, llama3: wavelengths become so many times as long ..              */
    double     low, high; /* llama3: .. of frequencies that turn less than low times in `original`
                           * positions, not of those that turn more than high times, some in between */
    int        original;
} Rope;

typedef struct ModelConfig {
    char    name[64];
    char    family[16];            /* "gpt", "mlp": a row of the table in model.c            */
    int     layers, width, heads, kv_heads, vocab;
    int     seq, batch;            /* positions of a sequence, sequences of a micro-step     */
    int     positions;             /* the longest sequence, gpt: rows of its table; 0: seq   */
    int     inner;                 /* width inside an MLP; 0: 4 times width                  */
    bool    untied;                /* the head is a matrix of its own, not the embedding     */
    int     head_dim;              /* llama: 0: width / heads                                */
    double  norm_eps;              /* llama: of its norms                                    */
    bool    attention_bias, mlp_bias; /* llama: biases of q, k, v and o; of gate, up and down  */
    Rope    rope;                  /* llama                                                  */
    int     padded_vocab;          /* 0: vocab rounded up to a multiple of 128               */
    float   dropout, attn_dropout; /* of embeddings and residuals; of attention probabilities */
    bool    no_bias;               /* no biases in linear layers and layernorms              */
    bool    gelu_erf;              /* else the tanh approximation                            */
    int64_t loss_chunk;            /* rows of logits at a time; 0: tide_block_rows()          */
    int64_t mlp_block;             /* rows of an MLP at a time; 0: the same                   */
    int64_t attn_block;            /* sequences of attention's backward at a time; 0: likewise */
    /* precision; zero is f32 throughout */
    TideType    dtype;             /* of parameters and activations                          */
    TideType    state_dtype;       /* of Adam's moments: f32 or bf16                         */
    ModelGrads  grads;             /* of gradients                                           */
    bool        no_master;         /* narrow parameters have no f32 copy: they are rounded by chance */
    float       loss_scale;        /* of the first step; 0: 65536 in f16, else no loss scaling */
    int         scale_interval;    /* finite steps in a row after which it doubles; 0: 2000   */
    /* training */
    int     accum;                 /* micro-steps of an update; 0 means 1                    */
    float   beta1, beta2, eps, weight_decay, clip; /* clip 0: none */
} ModelConfig;

typedef struct Model {
    ModelConfig  config;  /* with every default filled in */
    TideProgram *program; /* owned */
    /* micro must be graph 0: its activations have fates. */
    TideGraph   *micro, *update, *eval, *sample; /* sample NULL: the family cannot */
    /* micro-step: tokens and targets i32 [batch, seq] (an mlp: x f32 [batch, width], targets
     * i32 [batch]); info as TideStepInfo. A target of -1 is ignored. */
    TideTensor   tokens, targets, info;
    /* Outputs of update. loss: f32 [1], the sum of the row losses of the micro-steps since the update
     * before; divided by the valid targets it is the mean. norm: f32 [2] global gradient norm,
     * clip coefficient. */
    TideTensor   update_info, loss, norm;
    /* With loss scaling, else 0: the state, i32 [8] as TideScaling, and an output of update, the state as
     * the update left it. A step whose norm is not finite changes no weights and moments; the next one
     * takes info's late rates. */
    TideTensor   scaling, scaling_after;
    TideTensor   eval_tokens, eval_targets, eval_info, eval_loss; /* eval_loss: sum, output of eval */
    TideTensor   sample_tokens, sample_info, sample_logits; /* [1, seq]; logits f32 [1, padded_vocab] of
                                                             * position info.row */
} Model;

/* Fill a configuration by preset name (gpt2-124m gpt2-355m gpt2-774m gpt2-1558m gpt-char mlp), training
 * hyperparameters at their defaults; false if there is none of that name. */
bool        model_preset(const char *name, ModelConfig *out);
/* Names of the presets in order; NULL past the last. */
const char *model_preset_name(int i);

/* Build the program. On failure tide_message(t) names the field and the numbers; *out is NULL. */
TideStatus  model_new(Tide *t, const ModelConfig *config, Model **out);
void        model_free(Model *m);
int64_t     model_parameters(const Model *m); /* elements, padding of the vocabulary not counted */
double      model_flops_per_token(const Model *m); /* of a step: 6N + 12 L C T, N without positions */

/* The scale of the loss never falls below this; a gradient that overflows even so is no matter of scale. */
float       model_least_scale(void);

/* The f32 copy that stands beside a narrow parameter; 0: none. */
TideTensor  model_master_of(const Model *m, TideTensor parameter);

/* Write the starting weights (GPT-2's: N(0, 0.02), residual projections N(0, 0.02 / sqrt(2 L)), biases 0,
 * norms 1, padding rows 0), from Philox keyed by seed and parameter name, into a new run, whose moments are
 * 0; the f32 copies of narrow parameters and the scale of the loss too. */
TideStatus  model_init(const Model *m, TideRun *r, uint64_t seed);

#endif
