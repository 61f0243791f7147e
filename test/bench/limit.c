/* The limit of any server of event streams on this kernel: epoll, and one write(2) for each client and event.
 *
 *   limit PORT TOKEN
 *
 * A GET with `Authorization: Bearer TOKEN` opens a stream. Any other request with it publishes its body. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n:\n\n";
static const char DONE[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
static const char DENIED[] = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
static int clients[1 << 16], clientCount;

static void publish(const char *body) {
  char frame[4096];
  unsigned char id[16];
  getrandom(id, sizeof id, 0);
  int length = sprintf(frame, "id: ");
  for (int n = 0; n < 16; n++) length += sprintf(frame + length, n == 4 || n == 6 || n == 8 || n == 10 ? "-%02x" : "%02x", id[n]);
  length += snprintf(frame + length, sizeof frame - length, "\nevent: system.changed\ndata: %s\n\n", body);
  for (int n = 0; n < clientCount; n++)
    if (write(clients[n], frame, length) != length) exit(1);
}

int main(int count, char **args) {
  if (count != 3) return 2;
  char request[8192], authorization[4096];
  snprintf(authorization, sizeof authorization, "Bearer %s\r\n", args[2]);
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(atoi(args[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), poller = epoll_create1(0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&local, sizeof local) || listen(listener, 4096)) return 1;
  struct epoll_event events[512], wanted = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &wanted);
  for (;;) {
    int ready = epoll_wait(poller, events, 512, -1);
    for (int n = 0; n < ready; n++) {
      int fd = events[n].data.fd;
      if (fd == listener) {
        while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
          setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
          wanted.data.fd = fd;
          epoll_ctl(poller, EPOLL_CTL_ADD, fd, &wanted);
        }
        continue;
      }
      ssize_t length = read(fd, request, sizeof request - 1);
      if (length <= 0) {
        close(fd);
        continue;
      }
      request[length] = 0;
      char *body = strstr(request, "\r\n\r\n");
      const char *answer = DENIED;
      if (body && strstr(request, authorization)) {
        if (strncmp(request, "GET", 3)) publish(body + 4), answer = DONE;
        else clients[clientCount++] = fd, answer = HEAD;
      }
      if (write(fd, answer, strlen(answer)) < 0) close(fd);
    }
  }
}
