/* optim.h - the update graph: global norm, clipping, AdamW. */
#ifndef TIDE_OPTIM_H
#define TIDE_OPTIM_H
#include "models/model.h"
#include "models/params.h"

/* Build m->update over the parameters: info -> norm and loss, as model.h describes them. */
void optim_adamw(Model *m, const Params *s);

#endif
