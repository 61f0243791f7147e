/* Opens thousands of event streams, or polls, publishes events, and measures when each event arrives at each client.
 * Every client must get every event once and in order: anything else is reported on stderr, with exit status 1.
 *
 *   load PORT stream|poll SUBSCRIBE PUBLISH
 *
 * SUBSCRIBE is a file with the head of a request, without the empty line at its end. PUBLISH is a file with a whole
 * request, in which ######## is replaced by the event's number. It comes back as "bench-00000001" in the event's data.
 *
 * Commands on stdin, each answered by a line of JSON:
 *   connect N                             N clients that read
 *   stall N                               N clients that send a request and never read
 *   publish COUNT INTERVAL_US IN_FLIGHT   at an even pace; as fast as answers come if the interval is 0 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CLIENTS = 1 << 16, MAX_EVENTS = 1 << 20, MAX_IN_FLIGHT = 64, BUFFER = 1 << 18, PER_ADDRESS = 100 };
enum { MARK_LENGTH = 6, NUMBER_LENGTH = 8, BUCKETS = 64 * 40 };
/* The loopback would buffer megabytes for a client that does not read. This is two segments. */
enum { STALLED_RCVBUF = 2048, STALLED_MSS = 536 };
static const int64_t PATIENCE = 60 * 1000000000LL, SLICE = 500000000, NONE = -1;
static const char MARK[] = "bench-";

typedef struct {
  int fd, isPublisher, isStalled, isConnected, isReady, isBusy, event;
  enum { HEAD, BODY, CHUNK_HEAD, CHUNK, CHUNK_END, TRAILER } state;
  int64_t left; /* of the body or the chunk; NONE if it ends with the connection */
  int got;      /* events, including those from before it connected */
  char *raw, *text; /* incomplete input: of HTTP; of events, without HTTP around them */
  size_t rawLength, textLength;
  char etag[128], modified[64];
} Connection;

static char *subscribe, *publish, *number, raw[2 * BUFFER], text[2 * BUFFER];
static int port, isPoll, poller;
static Connection clients[MAX_CLIENTS], publishers[MAX_IN_FLIGHT];
static int clientCount, readerCount, readyCount, resetCount;
static int published, answered, answeredBelow;
static int64_t delivered, progress;
/* By place in the order: the event there. By event: its place, and how many were answered before it was sent, which
 * precede it. */
static int at[MAX_EVENTS], placeOf[MAX_EVENTS], before[MAX_EVENTS];
static char isAnswered[MAX_EVENTS];
static int64_t sentAt[MAX_EVENTS], lastAt[MAX_EVENTS], answeredAt[MAX_EVENTS];
/* Deliveries by microseconds, in 32 buckets an octave: precise to 3 %. */
static uint64_t histogram[BUCKETS];

static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  exit(1);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int bucketOf(uint64_t us) {
  int octave = us < 64 ? 0 : 58 - __builtin_clzll(us);
  return octave * 64 + (int)(us >> octave);
}

static double deliveryMs(double share) {
  uint64_t all = 0, seen = 0;
  int bucket = 0;
  for (int n = 0; n < BUCKETS; n++) all += histogram[n];
  while (bucket < BUCKETS - 1 && (seen += histogram[bucket]) < share * all) bucket++;
  return ((uint64_t)(bucket % 64) << bucket / 64) / 1e3;
}

static void deliver(Connection *client, int event) {
  long who = client - clients;
  int place = ++client->got;
  if (event < 1 || event > published) fail("client %ld: event %d was never sent", who, event);
  if (place > published) fail("client %ld: event %d twice", who, event);
  /* The first client to reach a place decides which event belongs there, but none may precede one that was answered
   * before it was sent. */
  if (at[place] == 0 && placeOf[event] == 0) {
    if (place <= before[event]) fail("client %ld: event %d too early: one is lost, or out of order", who, event);
    at[place] = event;
    placeOf[event] = place;
  }
  if (at[place] != event)
    fail("client %ld: event %d instead of %d: %s", who, event, at[place],
         placeOf[event] && placeOf[event] < place ? "twice, or out of order" : "one is lost, or out of order");
  delivered++;
  progress = lastAt[event] = now();
  histogram[bucketOf((progress - sentAt[event]) / 1000)]++;
}

/* Delivers the complete events, and returns how much of the text they took. */
static size_t scanStream(Connection *client, const char *text, size_t length) {
  const char *from = text, *end = text + length, *close;
  for (; (close = memmem(from, end - from, "\n\n", 2)); from = close + 2) {
    const char *data = memmem(from, close - from, "\ndata:", 6);
    const char *mark = data ? memmem(data, close - data, MARK, MARK_LENGTH) : NULL;
    if (mark) deliver(client, atoi(mark + MARK_LENGTH));
  }
  return from - text;
}

static void scanAnswer(Connection *client, const char *text, size_t length) {
  const char *end = text + length, *mark;
  while ((mark = memmem(text, end - text, MARK, MARK_LENGTH))) {
    text = mark + MARK_LENGTH;
    deliver(client, atoi(text));
  }
}

static void copyHeader(const char *head, const char *name, char *to, size_t size) {
  const char *found = strcasestr(head, name);
  if (!found) return;
  found += strlen(name);
  size_t length = strcspn(found, "\r\n");
  if (length >= size) fail("%zu bytes in %s", length, name);
  memcpy(to, found, length);
  to[length] = 0;
}

static void sendAll(int fd, const char *bytes, size_t length) {
  if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) fail("cannot send: %s", strerror(errno));
}

static void ask(Connection *client) {
  char request[4096], etag[160] = "", modified[96] = "";
  if (client->etag[0]) snprintf(etag, sizeof etag, "If-None-Match: %s\r\n", client->etag);
  if (client->modified[0]) snprintf(modified, sizeof modified, "If-Modified-Since: %s\r\n", client->modified);
  sendAll(client->fd, request, snprintf(request, sizeof request, "%s%s%s\r\n", subscribe, etag, modified));
}

static void sendEvent(Connection *publisher) {
  char digits[12];
  snprintf(digits, sizeof digits, "%0*d", NUMBER_LENGTH, publisher->event);
  memcpy(number, digits, NUMBER_LENGTH);
  sendAll(publisher->fd, publish, strlen(publish));
}

static void over(Connection *connection) {
  connection->state = HEAD;
  if (connection->isPublisher) {
    connection->isBusy = 0;
    answered++;
    isAnswered[connection->event] = 1;
    progress = answeredAt[connection->event] = now();
    while (isAnswered[answeredBelow + 1]) answeredBelow++;
  } else {
    if (!isPoll) fail("client %ld: the stream has ended", (long)(connection - clients));
    scanAnswer(connection, text, connection->textLength);
    connection->textLength = 0;
    ask(connection);
  }
}

static void readHead(Connection *connection, const char *head) {
  char length[32] = "";
  int status = atoi(head + 9);
  if (status / 100 != 2 && !(isPoll && status == 304)) fail("an answer of %d: %s", status, head);
  copyHeader(head, "\r\ncontent-length: ", length, sizeof length);
  connection->state = strcasestr(head, "\r\ntransfer-encoding: chunked") ? CHUNK_HEAD : BODY;
  connection->left = length[0] ? atoll(length) : status == 204 || status == 304 ? 0 : NONE;
  if (isPoll) {
    copyHeader(head, "\r\netag: ", connection->etag, sizeof connection->etag);
    copyHeader(head, "\r\nlast-modified: ", connection->modified, sizeof connection->modified);
  }
  if (connection->isPublisher || connection->isReady) return;
  readyCount += connection->isReady = 1;
  progress = now();
}

/* The text up to `close`, the end of a line or of a head. */
static char *takeUntil(char **from, char *end, const char *close) {
  char *start = *from, *found = memmem(start, end - start, close, strlen(close));
  if (!found) return NULL;
  *found = 0;
  *from = found + strlen(close);
  return start;
}

/* Strips HTTP off the input, and collects a client's events in `text`. Returns where the input is incomplete. */
static char *takeOff(Connection *connection, char *from, char *end) {
  for (;;) {
    if (connection->left == 0 && connection->state == BODY) over(connection);
    if (connection->left == 0 && connection->state == CHUNK) connection->state = CHUNK_END;
    if (from == end) return from;
    char *line;
    switch (connection->state) {
    case HEAD:
      if (!(line = takeUntil(&from, end, "\r\n\r\n"))) return from;
      readHead(connection, line);
      break;
    case CHUNK_HEAD:
      if (!(line = takeUntil(&from, end, "\r\n"))) return from;
      connection->left = strtol(line, NULL, 16);
      connection->state = connection->left == 0 ? TRAILER : CHUNK;
      break;
    case CHUNK_END:
      if (!takeUntil(&from, end, "\r\n")) return from;
      connection->state = CHUNK_HEAD;
      break;
    case TRAILER:
      if (!takeUntil(&from, end, "\r\n")) return from;
      over(connection);
      break;
    case BODY:
    case CHUNK: {
      int64_t part = end - from;
      if (connection->left != NONE) {
        if (part > connection->left) part = connection->left;
        connection->left -= part;
      }
      if (!connection->isPublisher) {
        memcpy(text + connection->textLength, from, part);
        connection->textLength += part;
      }
      from += part;
    }
    }
  }
}

static void keep(char **kept, const char *bytes, size_t length) {
  if (length == 0) return;
  if (!(*kept = realloc(*kept, length))) fail("no memory");
  memcpy(*kept, bytes, length);
}

static void openConnection(Connection *connection, int address);

static void receive(Connection *connection) {
  /* Kept bytes precede new ones: `raw` is at most a head, `text` at most an event. */
  if (connection->rawLength) memcpy(raw, connection->raw, connection->rawLength);
  if (connection->textLength) memcpy(text, connection->text, connection->textLength);
  ssize_t length = recv(connection->fd, raw + connection->rawLength, BUFFER, MSG_DONTWAIT);
  if (length < 0 && errno == EAGAIN) return;
  /* If the kernel's queue is full, a connection may be reset before the server has seen it. Any client would retry. */
  if (length < 0 && errno == ECONNRESET && !connection->isReady && !connection->isPublisher) {
    if (++resetCount > clientCount) fail("more resets than clients");
    close(connection->fd);
    connection->isConnected = 0;
    openConnection(connection, (int)(connection - clients) / PER_ADDRESS);
    return;
  }
  if (length <= 0)
    fail("%s %ld: the connection has ended: %s", connection->isPublisher ? "publisher" : "client",
         (long)(connection - (connection->isPublisher ? publishers : clients)), length ? strerror(errno) : "closed");
  char *end = raw + connection->rawLength + length, *from = takeOff(connection, raw, end);
  connection->rawLength = end - from;
  if (connection->rawLength > BUFFER) fail("a head of over %d bytes", BUFFER);
  keep(&connection->raw, from, connection->rawLength);
  if (connection->isPublisher) return;
  size_t used = isPoll ? 0 : scanStream(connection, text, connection->textLength);
  connection->textLength -= used;
  if (connection->textLength > BUFFER) fail("an event of over %d bytes", BUFFER);
  keep(&connection->text, text + used, connection->textLength);
}

static void watch(Connection *connection, int operation, uint32_t what) {
  struct epoll_event event = {.events = what, .data.ptr = connection};
  if (epoll_ctl(poller, operation, connection->fd, &event)) fail("cannot watch a connection: %s", strerror(errno));
}

/* From many addresses of 127.0.0.0/8: each has ports for 28,000 connections, and servers count by address. */
static void openConnection(Connection *connection, int address) {
  struct sockaddr_in local = {.sin_family = AF_INET}, remote = {.sin_family = AF_INET, .sin_port = htons(port)};
  local.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 65536 + address);
  remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int on = 1, size = STALLED_RCVBUF, mss = STALLED_MSS, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) fail("no socket: %s", strerror(errno));
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connection->isStalled) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss);
  }
  if (bind(fd, (struct sockaddr *)&local, sizeof local)) fail("cannot bind: %s", strerror(errno));
  if (connect(fd, (struct sockaddr *)&remote, sizeof remote) && errno != EINPROGRESS)
    fail("cannot connect: %s", strerror(errno));
  connection->fd = fd;
  watch(connection, EPOLL_CTL_ADD, EPOLLOUT);
}

static void connected(Connection *connection) {
  connection->isConnected = 1;
  watch(connection, EPOLL_CTL_MOD, connection->isStalled ? 0 : EPOLLIN);
  if (connection->isPublisher) sendEvent(connection);
  else ask(connection);
  if (connection->isStalled) readyCount++;
}

/* Handles input, or waits for it. Returns how many connections had some. */
static int turn(int64_t waitNs) {
  struct epoll_event events[512];
  struct timespec wait = {0, waitNs < SLICE ? waitNs : SLICE};
  int count = epoll_pwait2(poller, events, 512, &wait, NULL);
  for (int n = 0; n < count; n++) {
    Connection *connection = events[n].data.ptr;
    if (connection->isConnected) receive(connection);
    else connected(connection);
  }
  return count;
}

static void connectClients(int count, int isStalled) {
  int64_t start = progress = now();
  int due = readyCount + count;
  for (int n = 0; n < count; n++) {
    if (clientCount == MAX_CLIENTS) fail("at most %d clients", MAX_CLIENTS);
    Connection *client = &clients[clientCount++];
    client->isStalled = isStalled;
    client->got = published;
    openConnection(client, clientCount / PER_ADDRESS);
    if (n % 16 == 0) turn(0);
  }
  if (!isStalled) readerCount += count;
  /* A server may hold even a first poll. All are held once nothing has come for a while. */
  if (isPoll) for (int quiet = 0; quiet < 4; quiet++) while (turn(SLICE) > 0) quiet = 0;
  else while (readyCount < due) {
    turn(SLICE);
    if (now() - progress > PATIENCE) fail("%d of %d clients have no answer", due - readyCount, count);
  }
  printf("{\"seconds\":%.6f}\n", (now() - start) / 1e9);
}

static void publishOne(Connection *publisher) {
  if (++published >= MAX_EVENTS - 1) fail("at most %d events", MAX_EVENTS);
  publisher->event = published;
  publisher->isBusy = publisher->isPublisher = 1;
  before[published] = answeredBelow;
  sentAt[published] = now();
  if (publisher->isConnected) sendEvent(publisher);
  else openConnection(publisher, 0);
}

static int ascending(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static double msOf(int64_t *sorted, int count, double share) { return sorted[(int)(share * (count - 1) + 0.5)] / 1e6; }

static void publishEvents(int count, int64_t intervalNs, int inFlight) {
  int first = published + 1, last = published + count;
  int64_t due = delivered + (int64_t)count * readerCount, start = progress = now(), next = start;
  memset(histogram, 0, sizeof histogram);
  while (answered < last || delivered < due) {
    int64_t time = now();
    for (int n = 0; n < inFlight && published < last && time >= next; n++)
      if (!publishers[n].isBusy) {
        publishOne(&publishers[n]);
        next += intervalNs;
      }
    turn(published < last && next > time ? next - time : SLICE);
    if (now() - progress > PATIENCE + intervalNs)
      fail("%ld of %ld deliveries have not come", (long)(due - delivered), (long)count * readerCount);
  }
  int64_t *lastMs = malloc(count * sizeof *lastMs), *answerMs = malloc(count * sizeof *answerMs), end = start;
  for (int event = first; event <= last; event++) {
    lastMs[event - first] = lastAt[event] - sentAt[event];
    answerMs[event - first] = answeredAt[event] - sentAt[event];
    if (lastAt[event] > end) end = lastAt[event];
    if (answeredAt[event] > end) end = answeredAt[event];
  }
  qsort(lastMs, count, sizeof *lastMs, ascending);
  qsort(answerMs, count, sizeof *answerMs, ascending);
  printf("{\"seconds\":%.6f,\"deliveries\":%ld,\"p50\":%.3f,\"p99\":%.3f,\"lastP50\":%.3f,\"lastP99\":%.3f,"
         "\"answerP50\":%.3f,\"answerP99\":%.3f}\n",
         (end - start) / 1e9, (long)count * readerCount, deliveryMs(0.5), deliveryMs(0.99), msOf(lastMs, count, 0.5),
         msOf(lastMs, count, 0.99), msOf(answerMs, count, 0.5), msOf(answerMs, count, 0.99));
  free(lastMs);
  free(answerMs);
}

static char *readFile(const char *path) {
  static const size_t MAX = 1 << 16;
  FILE *file = fopen(path, "r");
  char *bytes = calloc(1, MAX);
  if (!file || !fread(bytes, 1, MAX - 1, file)) fail("cannot read %s", path);
  fclose(file);
  return bytes;
}

int main(int count, char **args) {
  if (count != 5) fail("usage: load PORT stream|poll SUBSCRIBE PUBLISH");
  port = atoi(args[1]);
  isPoll = !strcmp(args[2], "poll");
  subscribe = readFile(args[3]);
  publish = readFile(args[4]);
  if (!(number = strstr(publish, "########"))) fail("no ######## in %s", args[4]);
  poller = epoll_create1(0);
  setlinebuf(stdout);
  char line[256];
  long a, b, c;
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "connect %ld", &a) == 1) connectClients(a, 0);
    else if (sscanf(line, "stall %ld", &a) == 1) connectClients(a, 1);
    else if (sscanf(line, "publish %ld %ld %ld", &a, &b, &c) == 3) publishEvents(a, b * 1000, c);
    else fail("not a command: %s", line);
  }
  return 0;
}
