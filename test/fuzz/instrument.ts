import ts from 'typescript'
import { COMPARE, HITS } from './counters.ts'

/**
 * JavaScript of a source in TypeScript that counts each branch which it takes in the array `HITS`, from index `first` on, and
 * calls `COMPARE` in place of `===` and `!==`.
 * @returns it, with its source map, and the index after its last counter.
 */
export function instrument(
  fileName: string,
  text: string,
  first: number,
): { readonly code: string; readonly next: number } {
  let next = first
  const { factory } = ts
  const count = () =>
    factory.createPostfixIncrement(
      factory.createElementAccessExpression(factory.createIdentifier(HITS), factory.createNumericLiteral(next++)),
    )
  const counting = (expression: ts.Expression) =>
    factory.createParenthesizedExpression(factory.createComma(count(), expression))
  const countingBlock = (statement: ts.Statement | undefined) => {
    const inner = statement === undefined ? [] : ts.isBlock(statement) ? statement.statements : [statement]
    return factory.createBlock([factory.createExpressionStatement(count()), ...inner], true)
  }

  const transformer: ts.TransformerFactory<ts.SourceFile> = context => source => {
    const visit = (before: ts.Node): ts.Node => {
      const node = ts.visitEachChild(before, visit, context)
      if (ts.isIfStatement(node))
        return factory.updateIfStatement(
          node,
          node.expression,
          countingBlock(node.thenStatement),
          countingBlock(node.elseStatement),
        )
      if (ts.isConditionalExpression(node))
        return factory.updateConditionalExpression(
          node,
          node.condition,
          node.questionToken,
          counting(node.whenTrue),
          node.colonToken,
          counting(node.whenFalse),
        )
      if (ts.isBinaryExpression(node)) return binary(node)
      if (ts.isForStatement(node))
        return factory.updateForStatement(
          node,
          node.initializer,
          node.condition,
          node.incrementor,
          countingBlock(node.statement),
        )
      if (ts.isForOfStatement(node))
        return factory.updateForOfStatement(
          node,
          node.awaitModifier,
          node.initializer,
          node.expression,
          countingBlock(node.statement),
        )
      if (ts.isWhileStatement(node))
        return factory.updateWhileStatement(node, node.expression, countingBlock(node.statement))
      if (ts.isCatchClause(node))
        return factory.updateCatchClause(node, node.variableDeclaration, countingBlock(node.block))
      if (ts.isCaseClause(node))
        return factory.updateCaseClause(node, node.expression, [
          factory.createExpressionStatement(count()),
          ...node.statements,
        ])
      if (ts.isArrowFunction(node) && !ts.isBlock(node.body))
        return factory.updateArrowFunction(
          node,
          node.modifiers,
          node.typeParameters,
          node.parameters,
          node.type,
          node.equalsGreaterThanToken,
          counting(node.body),
        )
      // The body of a function, a method or a constructor.
      if (ts.isBlock(node) && before.parent && ts.isFunctionLike(before.parent)) return countingBlock(node)
      return node
    }
    return ts.visitEachChild(source, visit, context)
  }

  const binary = (node: ts.BinaryExpression): ts.Expression => {
    const { kind } = node.operatorToken
    if (
      kind === ts.SyntaxKind.AmpersandAmpersandToken ||
      kind === ts.SyntaxKind.BarBarToken ||
      kind === ts.SyntaxKind.QuestionQuestionToken
    )
      return factory.updateBinaryExpression(node, node.left, node.operatorToken, counting(node.right))
    const isEqual = kind === ts.SyntaxKind.EqualsEqualsEqualsToken
    if (!isEqual && kind !== ts.SyntaxKind.ExclamationEqualsEqualsToken) return node
    const call = factory.createCallExpression(factory.createIdentifier(COMPARE), undefined, [node.left, node.right])
    return isEqual ? call : factory.createLogicalNot(call)
  }

  const { outputText } = ts.transpileModule(text, {
    fileName,
    compilerOptions: {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.ESNext,
      verbatimModuleSyntax: true,
      inlineSourceMap: true,
      inlineSources: true,
    },
    transformers: { before: [transformer] },
  })
  return { code: outputText, next }
}
