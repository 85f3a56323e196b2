/* token_file.h - llm.c's files of tokens.
 *
 * 256 numbers of 32 bits, of which the first three are 20240520, 1 and the count of tokens, then tokens of 16
 * bits; or 20240801, 7 and the count, then tokens of 32 bits. Little-endian, nothing after the last token. */
#ifndef TIDE_TOKEN_FILE_H
#define TIDE_TOKEN_FILE_H
#include "models/text/bytes.h"
#include "models/text/tokens.h"

/* Map a file and check it: header, size, and that every token is below vocab. The tokens are borrowed from
 * *map, which the caller frees, also after a failure. TIDE_BAD_FILE with the numbers if it is unfit. */
TideStatus token_file_open(Tide *t, const char *path, int vocab, Bytes *map, Tokens *out);

#endif
