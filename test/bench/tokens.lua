-- wrk: each request with the next of the tokens in the file TOKENS, one a line.
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
