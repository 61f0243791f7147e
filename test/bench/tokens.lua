-- wrk: each request carries the next token of the file TOKENS, which has one on each line.
local requests = {}
local at = 0

function init()
  for token in io.lines(os.getenv('TOKENS')) do
    requests[#requests + 1] = wrk.format('GET', nil, { Authorization = 'Bearer ' .. token })
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end
