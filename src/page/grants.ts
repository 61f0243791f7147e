import { type Client, Refusal, type Send } from './client.ts'

/** The rights of a credential. */
export interface Grants {
  readonly readsSystem: boolean
  readonly changesSystem: boolean
  readonly seesSessions: boolean
  readonly decidesSessions: boolean
  /** It is the API key itself. */
  readonly isApiKey: boolean
}

/** Whether one of these grants, as the OpenAPI document names them, is among those of the credential. */
export function holdsOneOf(needs: readonly string[], grants: Grants): boolean {
  const held: Readonly<Record<string, boolean>> = {
    'admin:r': grants.readsSystem,
    'admin:w': grants.changesSystem,
    'moderator:r': grants.seesSessions,
    'moderator:w': grants.decidesSessions,
    'api-key': grants.isApiKey,
  }
  return needs.some(need => held[need])
}

/** No session has it. */
const NO_SESSION = '00000000-0000-0000-0000-000000000000'

/**
 * Tries the routes: the device alone knows what a credential grants. Whatever is asked here changes nothing, granted or not.
 * @throws {Refusal} if the credential is refused, {Unreachable}
 */
export async function findGrants(client: Client): Promise<Grants> {
  const may = async (method: string, path: string, send?: Send): Promise<boolean> => {
    try {
      await client.send(method, path, send)
      return true
    } catch (error) {
      if (!(error instanceof Refusal) || error.status === 401) throw error
      return error.status !== 403
    }
  }
  // First alone: a wrong credential is refused once. Not HEAD, whose refusal could not say why.
  const readsSystem = await may('GET', '/system')
  const [changesSystem, seesSessions, decidesSessions, isApiKey] = await Promise.all([
    may('PATCH', '/system', { body: {} }),
    may('GET', '/sessions'),
    may('DELETE', `/sessions/${NO_SESSION}`),
    may('POST', '/tokens', { body: { roles: [] } }),
  ])
  return { readsSystem, changesSystem, seesSessions, decidesSessions, isApiKey }
}
