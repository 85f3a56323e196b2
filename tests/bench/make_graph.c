/* make_graph.c - writes the cost graphs that the planner is measured on.
 *
 *     make_graph llama 32 > llama32.json      blocks
 *     make_graph unet 16 > unet.json          images a batch; so are resnet50 and densenet121 */
#include <stdlib.h>
#include <string.h>
#include "tests/support/sketch.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        Sketch *(*make)(int size);
    } models[] = {
        { "llama", sketch_llama },
        { "unet", sketch_unet },
        { "resnet50", sketch_resnet50 },
        { "densenet121", sketch_densenet121 },
    };
    long size = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

    for (size_t i = 0; size > 0 && size <= 4096 && i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i].name, argv[1])) continue;
        Sketch *s = models[i].make((int)size);
        bool ok = sketch_write(s, stdout) && fflush(stdout) == 0;
        sketch_free(s);
        return ok ? 0 : 1;
    }
    fprintf(stderr, "usage: make_graph llama|unet|resnet50|densenet121 SIZE (1 to 4096) > FILE.json\n");
    return 2;
}
