/* cost_models.c - networks as cost graphs, their shapes from the papers. */
#include "tests/support/sketch.h"

enum { BF16 = 2, F32 = 4 };

/* ---- Blocks of a transformer --------------------------------------------------- */

/* Tokens of a micro-step, and what every layer shares. */
typedef struct Lm {
    Sketch *s;
    double tokens;
    int width;
} Lm;

static double row_bytes(const Lm *m, int channels)
{
    return BF16 * m->tokens * channels;
}

static int linear(const Lm *m, const char *name, int x, int from, int to)
{
    return sketch_op(m->s, (SketchOp){ .name = name,
                                       .x = { x },
                                       .n_x = 1,
                                       .weight_bytes = (double)BF16 * from * to,
                                       .y_bytes = row_bytes(m, to),
                                       .flops = 2 * m->tokens * from * to,
                                       .saves_x = true });
}

/* Of rows; stats: numbers kept of each. */
static int norm(const Lm *m, const char *name, int x, int stats)
{
    return sketch_op(m->s, (SketchOp){ .name = name,
                                       .x = { x },
                                       .n_x = 1,
                                       .weight_bytes = (double)BF16 * stats * m->width,
                                       .y_bytes = row_bytes(m, m->width),
                                       .stat_bytes = F32 * stats * m->tokens,
                                       .saves_x = true,
                                       .again = true });
}

static int add(Sketch *s, const char *name, int x, int y, double bytes)
{
    return sketch_op(s,
                     (SketchOp){ .name = name, .x = { x, y }, .n_x = 2, .y_bytes = bytes, .in_place = true });
}

/* Causal: half of the products. Backward makes five of them where forward makes two. */
static int attention(const Lm *m, int qkv, int seq, int heads)
{
    double flops = 2 * m->tokens * seq * m->width;

    return sketch_op(m->s, (SketchOp){ .name = "attn",
                                       .x = { qkv },
                                       .n_x = 1,
                                       .y_bytes = row_bytes(m, m->width),
                                       .stat_bytes = F32 * m->tokens * heads,
                                       .flops = flops,
                                       .gradient_flops = 2.5 * flops,
                                       .attention = true,
                                       .saves_x = true,
                                       .saves_y = true });
}

/* Without a weight: what the activation functions of a feed-forward layer do. */
static int pointwise(const Lm *m, const char *name, const int *x, int n_x, int channels)
{
    SketchOp op = { .name = name, .n_x = n_x, .y_bytes = row_bytes(m, channels), .saves_x = true };

    for (int i = 0; i < n_x; i++) op.x[i] = x[i];
    return sketch_op(m->s, op);
}

static int embedding(const Lm *m, int vocab)
{
    return sketch_op(m->s, (SketchOp){ .name = "embed",
                                       .x = { sketch_input(m->s, "tokens", 4 * m->tokens) },
                                       .n_x = 1,
                                       .weight_bytes = (double)BF16 * vocab * m->width,
                                       .y_bytes = row_bytes(m, m->width),
                                       .saves_x = true });
}

/* Logits in chunks of rows, never as a whole; the gradient makes them again. */
static void loss(const Lm *m, int x, int vocab)
{
    double flops = 2 * m->tokens * m->width * vocab;

    sketch_op(m->s, (SketchOp){ .name = "loss",
                                .x = { x, sketch_input(m->s, "targets", 4 * m->tokens) },
                                .n_x = 2,
                                .weight_bytes = (double)BF16 * vocab * m->width,
                                .y_bytes = F32 * m->tokens,
                                .flops = flops,
                                .gradient_flops = 2 * flops,
                                .saves_x = true,
                                .scratch_bytes = 2.0 * BF16 * 1024 * vocab });
    sketch_backward(m->s);
}

/* ---- GPT-2 -----------------------------------------------------------------------
 *
 * Radford et al. 2019, table 2, with 1024 positions. */

static int gpt2_block(const Lm *m, int x, int heads)
{
    int w = m->width, qkv = linear(m, "qkv", norm(m, "ln1", x, 2), w, 3 * w);
    int mixed = linear(m, "proj", attention(m, qkv, 1024, heads), w, w);
    int middle = add(m->s, "res1", mixed, x, row_bytes(m, w));
    int fc = linear(m, "fc", norm(m, "ln2", middle, 2), w, 4 * w);

    return add(m->s, "res2", linear(m, "fcproj", pointwise(m, "gelu", &fc, 1, 4 * w), 4 * w, w), middle,
               row_bytes(m, w));
}

Sketch *sketch_gpt2(int layers, int width, int batch)
{
    Lm m = { sketch_new("gpt2", sketch_h200), 1024.0 * batch, width };
    int x = embedding(&m, 50304);

    for (int i = 0; i < layers; i++) {
        sketch_layer(m.s, "block%d", i);
        x = gpt2_block(&m, x, width / 64);
    }
    sketch_layer(m.s, "head");
    loss(&m, norm(&m, "ln_f", x, 2), 50304);
    return m.s;
}

/* ---- Llama -------------------------------------------------------------------
 *
 * Touvron et al. 2023, with grouped queries and the widths of an 8B model. */

enum {
    SEQ = 4096,
    LLAMA_BATCH = 4,
    WIDTH = 4096,
    HEADS = 32,
    KV_WIDTH = 1024,
    HIDDEN = 14336,
    VOCAB = 128256
};

/* The rotation is undone by the opposite one, so its gradient needs nothing. */
static int rope(const Lm *m, int qkv)
{
    return sketch_op(m->s, (SketchOp){ .name = "rope",
                                       .x = { qkv },
                                       .n_x = 1,
                                       .y_bytes = row_bytes(m, WIDTH + 2 * KV_WIDTH),
                                       .in_place = true });
}

static int llama_block(const Lm *m, int x)
{
    int qkv = linear(m, "qkv", norm(m, "norm1", x, 1), WIDTH, WIDTH + 2 * KV_WIDTH);
    int mixed = linear(m, "o", attention(m, rope(m, qkv), SEQ, HEADS), WIDTH, WIDTH);
    int middle = add(m->s, "res1", mixed, x, row_bytes(m, WIDTH)), normed = norm(m, "norm2", middle, 1);
    int both[2] = { linear(m, "gate", normed, WIDTH, HIDDEN), linear(m, "up", normed, WIDTH, HIDDEN) };

    return add(m->s, "res2", linear(m, "down", pointwise(m, "silu_mul", both, 2, HIDDEN), HIDDEN, WIDTH),
               middle, row_bytes(m, WIDTH));
}

Sketch *sketch_llama(int blocks)
{
    Lm m = { sketch_new("llama", sketch_h200), (double)SEQ * LLAMA_BATCH, WIDTH };
    int x = embedding(&m, VOCAB);

    for (int i = 0; i < blocks; i++) {
        sketch_layer(m.s, "block%d", i);
        x = llama_block(&m, x);
    }
    sketch_layer(m.s, "head");
    loss(&m, norm(&m, "norm", x, 1), VOCAB);
    return m.s;
}

/* ---- Images -------------------------------------------------------------------- */

/* Feature maps of a batch: channels of side x side. */
typedef struct Maps {
    int id, channels, side;
} Maps;

typedef struct Net {
    Sketch *s;
    double batch;
} Net;

static double map_bytes(const Net *n, int channels, int side)
{
    return BF16 * n->batch * channels * side * side;
}

typedef struct Conv {
    const char *name;
    int channels, kernel, side; /* of the output */
    bool up;                    /* each output place reads one input place, through one place of the kernel */
} Conv;

static Maps conv(const Net *n, Maps x, Conv c)
{
    double kernel = (double)c.kernel * c.kernel, weight = kernel * x.channels * c.channels;
    double products = (c.up ? weight / kernel : weight) * n->batch * c.side * c.side;

    return (Maps){ sketch_op(n->s, (SketchOp){ .name = c.name,
                                               .x = { x.id },
                                               .n_x = 1,
                                               .weight_bytes = BF16 * weight,
                                               .y_bytes = map_bytes(n, c.channels, c.side),
                                               .flops = 2 * products,
                                               .saves_x = true }),
                   c.channels, c.side };
}

static Maps batchnorm(const Net *n, const char *name, Maps x)
{
    x.id = sketch_op(n->s, (SketchOp){ .name = name,
                                       .x = { x.id },
                                       .n_x = 1,
                                       .weight_bytes = 2.0 * BF16 * x.channels,
                                       .y_bytes = map_bytes(n, x.channels, x.side),
                                       .stat_bytes = 2.0 * F32 * x.channels,
                                       .saves_x = true,
                                       .again = true });
    return x;
}

static Maps relu(const Net *n, const char *name, Maps x)
{
    x.id = sketch_op(n->s, (SketchOp){ .name = name,
                                       .x = { x.id },
                                       .n_x = 1,
                                       .y_bytes = map_bytes(n, x.channels, x.side),
                                       .saves_y = true,
                                       .in_place = true });
    return x;
}

/* The largest of each window; which one it was, a byte each, is what the gradient needs. */
static Maps maxpool(const Net *n, const char *name, Maps x, int side)
{
    double places = n->batch * x.channels * side * side;

    return (Maps){ sketch_op(n->s, (SketchOp){ .name = name,
                                               .x = { x.id },
                                               .n_x = 1,
                                               .y_bytes = BF16 * places,
                                               .stat_bytes = places }),
                   x.channels, side };
}

static Maps meanpool(const Net *n, const char *name, Maps x, int side)
{
    return (Maps){ sketch_op(n->s, (SketchOp){ .name = name,
                                               .x = { x.id },
                                               .n_x = 1,
                                               .y_bytes = map_bytes(n, x.channels, side) }),
                   x.channels, side };
}

static Maps concat(const Net *n, const char *name, Maps a, Maps b)
{
    Maps y = { 0, a.channels + b.channels, a.side };

    y.id = sketch_op(
        n->s, (SketchOp){
                  .name = name, .x = { a.id, b.id }, .n_x = 2, .y_bytes = map_bytes(n, y.channels, y.side) });
    return y;
}

static Maps image(Net *n, int side)
{
    return (Maps){ sketch_input(n->s, "image", BF16 * n->batch * 3 * side * side), 3, side };
}

/* A mean over all places, a linear layer and the loss of a class. */
static void classify(const Net *n, Maps x)
{
    sketch_layer(n->s, "head");
    Maps y = conv(n, meanpool(n, "pool", x, 1), (Conv){ "fc", 1000, 1, 1, false });
    sketch_op(n->s, (SketchOp){ .name = "loss",
                                .x = { y.id, sketch_input(n->s, "class", 4 * n->batch) },
                                .n_x = 2,
                                .y_bytes = F32 * n->batch,
                                .saves_x = true });
    sketch_backward(n->s);
}

/* ---- U-Net ----------------------------------------------------------------------- */

/* Two unpadded 3 x 3 convolutions. */
static Maps double_conv(const Net *n, Maps x, int channels)
{
    x = relu(n, "relu1", conv(n, x, (Conv){ "conv1", channels, 3, x.side - 2, false }));
    return relu(n, "relu2", conv(n, x, (Conv){ "conv2", channels, 3, x.side - 2, false }));
}

static Maps crop(const Net *n, Maps x, int side)
{
    return meanpool(n, "crop", x, side); /* costs the same: it reads one map and writes a smaller one */
}

Sketch *sketch_unet(int batch)
{
    Net n = { sketch_new("unet", sketch_h200), batch };
    Maps down[4], x = image(&n, 572);

    for (int i = 0; i < 4; i++) {
        sketch_layer(n.s, "down%d", i);
        down[i] = double_conv(&n, x, 64 << i);
        x = maxpool(&n, "pool", down[i], down[i].side / 2);
    }
    sketch_layer(n.s, "bottom");
    x = double_conv(&n, x, 1024);
    for (int i = 3; i >= 0; i--) {
        sketch_layer(n.s, "up%d", i);
        Maps larger = conv(&n, x, (Conv){ "upconv", 64 << i, 2, 2 * x.side, true });
        x = double_conv(&n, concat(&n, "concat", larger, crop(&n, down[i], larger.side)), 64 << i);
    }
    sketch_layer(n.s, "head");
    x = conv(&n, x, (Conv){ "conv", 2, 1, x.side, false });
    sketch_op(n.s, (SketchOp){ .name = "loss",
                               .x = { x.id, sketch_input(n.s, "mask", n.batch * x.side * x.side) },
                               .n_x = 2,
                               .y_bytes = F32 * n.batch * x.side * x.side,
                               .saves_x = true });
    sketch_backward(n.s);
    return n.s;
}

/* ---- ResNet-50 --------------------------------------------------------------------- */

typedef struct Stage {
    int blocks, channels, side;
} Stage;

static Maps conv_norm(const Net *n, Maps x, const char *const names[2], Conv c)
{
    c.name = names[0];
    return batchnorm(n, names[1], conv(n, x, c));
}

static Maps bottleneck(const Net *n, Maps x, Stage st)
{
    static const char *const a[] = { "conv1", "norm1" }, *const b[] = { "conv2", "norm2" },
                             *const c[] = { "conv3", "norm3" }, *const p[] = { "shortcut", "shortcut_norm" };
    Maps y = relu(n, "relu1", conv_norm(n, x, a, (Conv){ "", st.channels, 1, x.side, false }));

    y = relu(n, "relu2", conv_norm(n, y, b, (Conv){ "", st.channels, 3, st.side, false }));
    y = conv_norm(n, y, c, (Conv){ "", 4 * st.channels, 1, st.side, false });
    if (x.channels != y.channels || x.side != y.side)
        x = conv_norm(n, x, p, (Conv){ "", y.channels, 1, y.side, false });
    y.id = add(n->s, "add", y.id, x.id, map_bytes(n, y.channels, y.side));
    return relu(n, "relu3", y);
}

Sketch *sketch_resnet50(int batch)
{
    static const Stage stages[] = { { 3, 64, 56 }, { 4, 128, 28 }, { 6, 256, 14 }, { 3, 512, 7 } };
    Net n = { sketch_new("resnet50", sketch_h200), batch };

    sketch_layer(n.s, "stem");
    Maps x = conv(&n, image(&n, 224), (Conv){ "conv", 64, 7, 112, false });
    x = maxpool(&n, "pool", relu(&n, "relu", batchnorm(&n, "norm", x)), 56);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < stages[i].blocks; j++) {
            sketch_layer(n.s, "stage%d.%d", i, j);
            x = bottleneck(&n, x, stages[i]);
        }
    classify(&n, x);
    return n.s;
}

/* ---- DenseNet-121 -------------------------------------------------------------------- */

static Maps dense_layer(const Net *n, Maps x)
{
    Maps y = relu(n, "relu1", batchnorm(n, "norm1", x));

    y = conv(n, y, (Conv){ "conv1", 128, 1, x.side, false });
    y = conv(n, relu(n, "relu2", batchnorm(n, "norm2", y)), (Conv){ "conv2", 32, 3, x.side, false });
    return concat(n, "concat", x, y);
}

Sketch *sketch_densenet121(int batch)
{
    static const int layers[] = { 6, 12, 24, 16 };
    Net n = { sketch_new("densenet121", sketch_h200), batch };

    sketch_layer(n.s, "stem");
    Maps x = conv(&n, image(&n, 224), (Conv){ "conv", 64, 7, 112, false });
    x = maxpool(&n, "pool", relu(&n, "relu", batchnorm(&n, "norm", x)), 56);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < layers[i]; j++) {
            sketch_layer(n.s, "dense%d.%d", i, j);
            x = dense_layer(&n, x);
        }
        sketch_layer(n.s, i < 3 ? "transition%d" : "last", i);
        x = relu(&n, "relu", batchnorm(&n, "norm", x));
        if (i < 3)
            x = meanpool(&n, "pool", conv(&n, x, (Conv){ "conv", x.channels / 2, 1, x.side, false }),
                         x.side / 2);
    }
    classify(&n, x);
    return n.s;
}
