// A certified provider of OpenID Connect, which knows one client: `node provider.mjs REDIRECT_URI CLIENT_ID SECRET`.
// It prints its issuer. Its own pages ask for any name and password, and say that everybody is an operator.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const [back, id, secret] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const key = { ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: "one" };
const account = (_, name) => ({
  accountId: name,
  claims: async () => ({ sub: name, preferred_username: name, groups: ["vitrina-operators"] }),
});
const server = createServer((request, response) => answer(request, response));
let answer;
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: id, client_secret: secret, redirect_uris: [back] }],
    jwks: { keys: [key] },
    claims: { profile: ["preferred_username", "groups"] },
    conformIdTokenClaims: false, // as Keycloak and Entra do: claims are in the ID token too
    pkce: { required: () => true },
    cookies: { keys: ["of tests only"] },
    findAccount: account,
  });
  answer = provider.callback();
  console.log(issuer);
});
