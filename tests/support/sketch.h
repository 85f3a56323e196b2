/* sketch.h - cost graphs of training steps, drawn op by op: bytes from shapes, seconds from FLOPs and bytes.
 *
 * Forward ops are appended in order; sketch_backward() then appends their gradients in reverse. Out of memory
 * ends the process. */
#ifndef TIDE_TEST_SKETCH_H
#define TIDE_TEST_SKETCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What the device does: an H200 in bf16, as measured for this project. */
typedef struct SketchDevice {
    double flops_per_second, attention_flops_per_second, bytes_per_second, link_bytes_per_second,
        duplex_bytes_per_second, latency_seconds;
} SketchDevice;
extern const SketchDevice sketch_h200;

enum { SKETCH_INPUTS = 64 };

/* One forward op: activations x[] (of n_x; -1: none) and a weight become y, and stat if it has bytes. */
typedef struct SketchOp {
    const char *name;        /* inside its layer                                              */
    int x[SKETCH_INPUTS], n_x;
    double weight_bytes, y_bytes, stat_bytes;
    double flops;            /* of the forward run; each of its gradients takes as many        */
    double gradient_flops;   /* of all gradients together, where that is not so; 0: it is so   */
    bool attention;          /* runs at the speed of attention                                 */
    bool saves_x, saves_y;   /* backward reads its inputs, its output                          */
    bool in_place;           /* y may take the bytes of x[0]                                   */
    bool again;              /* y can be made again from x[0] and stat by a cheaper node       */
    double scratch_bytes;    /* of forward and backward                                        */
} SketchOp;

typedef struct Sketch Sketch;

Sketch *sketch_new(const char *name, SketchDevice device);
void    sketch_layer(Sketch *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
int     sketch_input(Sketch *s, const char *name, double bytes);
/* Append a forward op; returns y. */
int     sketch_op(Sketch *s, SketchOp op);
/* Append the gradients of all ops, the last of which makes the loss. Inputs get none. */
void    sketch_backward(Sketch *s);
/* Write a tide_graph. False if the stream failed. */
bool    sketch_write(const Sketch *s, FILE *to);
void    sketch_free(Sketch *s);

/* cost_models.c: shapes from the papers. */
Sketch *sketch_gpt2(int layers, int width, int batch);
Sketch *sketch_llama(int blocks);   /* width 4096, 32 heads, 8 of keys and values, 14336; 4 x 4096 tokens */
Sketch *sketch_unet(int batch);     /* Ronneberger et al. 2015, figure 1                                  */
Sketch *sketch_resnet50(int batch); /* He et al. 2015, table 1, images of 224 x 224                       */
Sketch *sketch_densenet121(int batch); /* Huang et al. 2016, table 1, growth 32                           */

#endif
